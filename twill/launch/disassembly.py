"""The SASS of a built kernel with line information, by the CUDA toolkit's `cuobjdump` and `nvdisasm`, or
Triton's copies of them."""

import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path


def disassembled(library: Path) -> str | None:
    """The text of `nvdisasm -gi` for every cubin of a library; None where the tools are missing or fail."""
    extract, disassemble = tool("cuobjdump"), tool("nvdisasm")
    if extract is None or disassemble is None or not library.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        _run([extract, "-xelf", "all", str(library.resolve())], folder)
        texts = [
            _run([disassemble, "-gi", "-c", cubin.name], folder)
            for cubin in sorted(Path(folder).glob("*.cubin"))
        ]
    return "\n".join(texts) if texts and all(texts) else None


def tool(name: str) -> str | None:
    """The path of a tool, on the PATH or in the installed Triton."""
    spec = find_spec("triton")
    homes = (
        [Path(home) / "backends/nvidia/bin" for home in (spec.submodule_search_locations or ())]
        if spec
        else []
    )
    found = [str(home / name) for home in homes if (home / name).is_file()]
    return shutil.which(name) or next(iter(found), None)


def _run(command: list[str], folder: str) -> str:
    """Standard output; empty where the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout if done.returncode == 0 else ""
