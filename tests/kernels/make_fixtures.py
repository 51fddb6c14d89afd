# pyright: basic
"""Compiles and schedules the kernels of `kernels.py`, schedules the examples, or those of both named; tests
read what this writes.

python -m tests.kernels.make_fixtures [NAME | NAME.sm100 ...]
"""

import sys
from pathlib import Path

from tests.kernels.kernels import VARIANTS
from tests.kernels.programs import BLACKWELL, BLOCK_SCALED, EXAMPLES, POLYNOMIAL, architecture
from twill.extract.frontend.triton import capture
from twill.files import write_schedule
from twill.generate import generate
from twill.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.search import Options

HERE = Path("tests/kernels")
LIMIT = 60
"""Seconds for each loop."""
GROUPS = {"fa_fwd_causal.sm100": 3}
"""Kernels whose loops share channels only with so many groups: otherwise these do not fit."""


def main(names: list[str]) -> None:
    for kernel_name in names or [
        *(one for one in VARIANTS if one not in BLOCK_SCALED),
        *EXAMPLES,
        *BLACKWELL,
    ]:
        name, arch = kernel_name.removesuffix(".sm100"), architecture(kernel_name)
        path = Path("examples/ttgir") / f"{name.removesuffix('_polynomial')}.{arch}.ttgir"
        if name in VARIANTS:
            kernel, changes = VARIANTS[name]
            path = HERE / "ttgir" / f"{name}.{arch}.ttgir"
            path.write_text(
                capture("tests/kernels/kernels.py", kernel, arch, dict(changes)), encoding="utf-8"
            )
        folder = HERE / "schedules" / ("sm100" if arch == "sm100" else "")
        inputs = Inputs(
            str(path), arch=arch, groups=GROUPS.get(kernel_name), polynomial_exp2=name in POLYNOMIAL
        )
        made = generate(inputs, GenerateOptions(time_limit=LIMIT, check=False))
        for i, (loop, result) in enumerate(made.results.items()):
            text = write_schedule(result, Options(time_limit=LIMIT, explain=False), zero_seconds=True)
            (folder / f"{name}.for.{i}.json").write_text(text, encoding="utf-8")
            print(kernel_name, loop, result.status)


if __name__ == "__main__":
    main(sys.argv[1:])
