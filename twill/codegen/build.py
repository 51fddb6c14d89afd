"""From a generated file to a library: runs nvcc and reads what ptxas says.

Takes CUDA text; gives the path of a shared library. Raises TwillError where nvcc is missing or fails, and for the two things that make a
kernel slow without stopping it: spilled registers and wgmma that are serialized.
"""

import shutil
import subprocess
from pathlib import Path
from re import findall

from twill.diagnostics import TwillError

RUNTIME = Path(__file__).parent / "runtime"
FLAGS = ("-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "-Xcompiler", "-fPIC", "-shared")


def build(text: str, folder: Path, name: str = "kernel") -> tuple[Path, tuple[str, ...]]:
    """Write NAME.cu and NAME.so into a folder; gives the library and what ptxas warned of."""
    if shutil.which("nvcc") is None:
        raise TwillError(
            "nvcc is not installed", help="CUDA 12.4 or newer is needed to build a kernel; twill codegen --no-build only writes it"
        )
    file, library = folder / f"{name}.cu", folder / f"{name}.so"
    file.write_text(text)
    command = ["nvcc", *FLAGS, f"-I{RUNTIME}", "-o", str(library), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TwillError(f"nvcc can not build {file}:\n{done.stderr.strip()}", help="please report this")
    return library, warnings(done.stdout + done.stderr)


def warnings(log: str) -> tuple[str, ...]:
    """Spills and serialized wgmma in what ptxas printed."""
    spilled = sum(int(count) for count in findall(r"(\d+) bytes spill stores", log))
    found = [f"{spilled} bytes of registers are spilled: try fewer groups, or a smaller tile"] if spilled else []
    return (*found, *(line.strip() for line in log.splitlines() if "(C75" in line))
