"""Writes the TTGIR of every example kernel for both architectures; run it from the root of the repository.

python examples/compile.py
"""

from pathlib import Path

from twill.extract.frontend.kernel_files import load_file
from twill.extract.frontend.triton import capture

KERNELS = "examples/kernels.py"


def main() -> None:
    for name in load_file(KERNELS).TWILL:
        for arch in ("sm90", "sm100"):
            path = Path("examples/ttgir", f"{name}.{arch}.ttgir")
            path.write_text(capture(KERNELS, name, arch, {}), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
