"""SASS of a small library, where the tools are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from twill.launch.disassembly import disassembled, tool

KERNEL = """#include <cstdint>
__global__ void scaled(float* x) {
    x[threadIdx.x] *= 2;
}
"""


@pytest.mark.skipif(
    shutil.which("nvcc") is None or tool("nvdisasm") is None, reason="needs nvcc and nvdisasm"
)
def test_sass_names_the_lines_of_the_source(tmp_path: Path) -> None:
    source, library = tmp_path / "kernel.cu", tmp_path / "kernel.so"
    source.write_text(KERNEL)
    flags = ["-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC", "-shared"]
    subprocess.run(["nvcc", *flags, "-o", str(library), str(source)], check=True, capture_output=True)
    text = disassembled(library)
    assert text
    assert 'kernel.cu", line 3' in text
    assert "STG" in text


def test_a_library_that_is_not_there_has_no_sass(tmp_path: Path) -> None:
    assert disassembled(tmp_path / "kernel.so") is None
