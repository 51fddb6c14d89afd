# pyright: basic
"""Writes the fixtures of the installed Triton; run it once with each of 3.5.1, 3.6.0, 3.7.0, 3.8.0 and 3.9.0.

PYTHONPATH=.:FOLDER_WITH_TRITON python tests/extract/make_fixtures.py
"""

from pathlib import Path

from twill.extract.frontend.triton import capture
from twill.extract.frontend.triton_passes import version

EXAMPLES, KERNELS = "examples/kernels.py", "tests/extract/kernels.py"

BEFORE = [
    (EXAMPLES, "fa_fwd", "sm90"),
    (EXAMPLES, "fa_bwd", "sm100"),
    (KERNELS, "odd", "sm90"),
    (KERNELS, "while_gemm", "sm90"),
]
"""Captured before scheduling."""

AFTER = [
    (EXAMPLES, "gemm", "sm90"),
    (KERNELS, "specialized_gemm", "sm90"),
    (KERNELS, "specialized_gemm", "sm100"),
]
"""Captured after all of Triton's passes: pipelined, and warp-specialized."""


def main() -> None:
    folder = Path("tests/extract/fixtures", str(version()))
    folder.mkdir(parents=True, exist_ok=True)
    for file, name, arch in BEFORE:
        (folder / f"{name}.{arch}.ttgir").write_text(capture(file, name, arch, {}))
    for file, name, arch in AFTER:
        (folder / f"{name}.{arch}.scheduled.ttgir").write_text(capture(file, name, arch, {}, scheduled=True))


if __name__ == "__main__":
    main()
