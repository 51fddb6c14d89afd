# pyright: basic
"""Compiles and schedules the kernels of `kernels.py`, or those named; tests read what this writes.

python -m tests.codegen.make_fixtures [NAME ...]
"""

import sys
from pathlib import Path

from tests.codegen.kernels import VARIANTS
from twill.extract.triton import capture
from twill.files import write_schedule
from twill.inputs import Inputs, cases
from twill.ir.search import Options
from twill.pipeline import solve

HERE = Path("tests/codegen")


def main(names: list[str]) -> None:
    for name in names or VARIANTS:
        kernel, changes = VARIANTS[name]
        path = HERE / "ttgir" / f"{name}.sm90.ttgir"
        path.write_text(capture("tests/codegen/kernels.py", kernel, "sm90", dict(changes)), encoding="utf-8")
        options = Options(time_limit=20, explain=False)
        for i, case in enumerate(cases(Inputs(str(path), arch="sm90"))):
            result = solve(case.problem, options)
            (HERE / "schedules" / f"{name}.for.{i}.json").write_text(write_schedule(result, options, zero_seconds=True), encoding="utf-8")
            print(name, case.name, result.status)


if __name__ == "__main__":
    main(sys.argv[1:])
