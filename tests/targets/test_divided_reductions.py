"""Reductions that warps finish: lanes divide the elements of a thread, and the sums are those of all."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from twill.emulate.host import compiled
from twill.extract.reader.ttgir import read
from twill.ir.loop import Tensor
from twill.launch.build import RUNTIME
from twill.targets.cuda.registers.linear_tiles import spread
from twill.targets.cuda.values.exchange import Room, shared_between

TEXT = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [2, 2], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @sums(%x: tensor<64x64xf32, #blocked>) {
    %total = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %sum = arith.addf %a, %b : f32
      tt.reduce.return %sum : f32
    }) : (tensor<64x64xf32, #blocked>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>
    tt.return
  }
}
"""
KERNEL = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void run(const float* from, float* to) {
    __shared__ float scratch[256];
    const uint32_t memory = shared_address(scratch);
    ThreadCoordinates thread(0);
    float found[32];
    for (int i = 0; i < 32; ++i) found[i] = from[threadIdx.x * 32 + i];
LINES
    for (int i = 0; i < 32; ++i) to[threadIdx.x * 32 + i] = found[i];
}
"""
ROWS = 32


def lines() -> list[str]:
    """Each warp has half of the columns of every other row, each thread one column of these."""
    (function,) = read(TEXT, "sums.ttgir").functions
    op = next(one for one in function.walk() if one.name == "tt.reduce")
    source, result = op.operands[0].type, op.result.type
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    room = Room("memory", ["__syncthreads();"], "__syncthreads();")
    return shared_between(op, "found", spread(source), spread(result), lambda: room)


def test_lanes_divide_the_elements_of_a_thread() -> None:
    """31 shuffles for 32 rows, not 160; one store of a thread, not 32; 16 loads, not 64."""
    text = "\n".join(lines())
    loops = re.findall(r"i_ < (\d+); \+\+i_\) \{\n.*second_", text)
    assert [int(one) for one in loops] == [16, 8, 4, 2, 1]
    assert text.count("__shfl_xor_sync") == len(loops)
    assert re.search(r"i_ < 1; \+\+i_\) shared_at<float>", text)
    assert re.search(r"warp < 2; \+\+warp\) \{\n.*\n    for \(int i_ = 0; i_ < 8;", text)
    assert "load_elements<4>" in text


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_sums_are_those_of_whole_rows(tmp_path: Path) -> None:
    file = tmp_path / "sums.cu"
    file.write_text(KERNEL.replace("LINES", "\n".join(lines())))
    made = np.random.default_rng(5).integers(-9, 9, (128, ROWS)).astype(np.float32)
    found = np.zeros((128, ROWS), np.float32)
    kernel = compiled(file, tmp_path, [RUNTIME], "90a").module.kernel("run")
    kernel.launch((1, 1, 1), [made.ravel(), found.ravel()], block=(128, 1, 1))
    of_warps = made.reshape(2, 64, ROWS).sum(axis=1)
    np.testing.assert_array_equal(found, np.repeat(of_warps, 64, axis=0))
