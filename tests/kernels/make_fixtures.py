# pyright: basic
"""Compiles and schedules the kernels of `kernels.py`, schedules the examples, or those of both named; tests
read what this writes.

python -m tests.kernels.make_fixtures [NAME | NAME.sm100 ...]

Examples in bf16 are compiled, and have the schedules of those in fp16.
"""

import sys
from pathlib import Path

from tests.kernels.kernels import VARIANTS
from tests.kernels.programs import (
    BLACKWELL,
    BLACKWELL_ONLY,
    BRAIN,
    EXAMPLES,
    PAIRED,
    POLYNOMIAL,
    SCALED_EXAMPLES,
    architecture,
)
from twill.extract.frontend.triton import capture
from twill.files import write_schedule
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.search import Options
from twill.warp.plan import Options as Lowering

HERE = Path("tests/kernels")
LIMIT = 60
"""Seconds for each loop."""


def main(names: list[str]) -> None:
    for kernel_name in names or [
        *(one for one in VARIANTS if one not in BLACKWELL_ONLY),
        *EXAMPLES,
        *BLACKWELL,
        *PAIRED,
        *BRAIN,
    ]:
        if kernel_name in BRAIN:
            example, types = BRAIN[kernel_name]
            text = capture("examples/kernels.py", example, "sm100", types)
            (HERE / "ttgir" / f"{kernel_name}.ttgir").write_text(text, encoding="utf-8")
            continue
        name, arch = kernel_name.removesuffix(".sm100"), architecture(kernel_name)
        pairs, plain = kernel_name in PAIRED, name.removesuffix("_polynomial").removesuffix("_pairs")
        path = Path("examples/ttgir") / f"{plain}.{arch}.ttgir"
        if plain in (*VARIANTS, *SCALED_EXAMPLES):
            source = "examples" if plain in SCALED_EXAMPLES else "tests/kernels"
            kernel, changes = VARIANTS.get(plain, (plain, {}))
            path = HERE / "ttgir" / f"{plain}.{arch}.ttgir"
            path.write_text(capture(f"{source}/kernels.py", kernel, arch, dict(changes)), encoding="utf-8")
        folder = HERE / "schedules" / ("sm100" if arch == "sm100" else "")
        inputs = Inputs(
            str(path),
            arch=arch,
            polynomial_exp2=name in POLYNOMIAL,
        )
        options = GenerateOptions(time_limit=LIMIT, check=False, lowering=Lowering(pairs=pairs))
        made = generate(inputs, options)
        for i, (loop, result) in enumerate(made.results.items()):
            text = write_schedule(result, Options(time_limit=LIMIT, explain=False), zero_seconds=True)
            (folder / f"{name}.for.{i}.json").write_text(text, encoding="utf-8")
            print(kernel_name, loop, result.status)


if __name__ == "__main__":
    main(sys.argv[1:])
