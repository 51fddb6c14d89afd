# pyright: basic
"""Compiles and schedules the kernels of `kernels.py`, schedules the examples, or those of both named; tests
read what this writes.

python -m tests.kernels.make_fixtures [NAME ...]
"""

import sys
from pathlib import Path

from tests.kernels.kernels import VARIANTS
from tests.kernels.programs import EXAMPLES
from twill.extract.frontend.triton import capture
from twill.files import write_schedule
from twill.generate import GenerateOptions, generate
from twill.inputs import Inputs
from twill.ir.search import Options

HERE = Path("tests/kernels")
LIMIT = 60
"""Seconds for each loop."""


def main(names: list[str]) -> None:
    for name in names or [*VARIANTS, *EXAMPLES]:
        path = Path("examples/ttgir") / f"{name}.sm90.ttgir"
        if name in VARIANTS:
            kernel, changes = VARIANTS[name]
            path = HERE / "ttgir" / f"{name}.sm90.ttgir"
            path.write_text(
                capture("tests/kernels/kernels.py", kernel, "sm90", dict(changes)), encoding="utf-8"
            )
        made = generate(Inputs(str(path), arch="sm90"), GenerateOptions(time_limit=LIMIT))
        for i, (loop, result) in enumerate(made.results.items()):
            text = write_schedule(result, Options(time_limit=LIMIT, explain=False), zero_seconds=True)
            (HERE / "schedules" / f"{name}.for.{i}.json").write_text(text, encoding="utf-8")
            print(name, loop, result.status)


if __name__ == "__main__":
    main(sys.argv[1:])
