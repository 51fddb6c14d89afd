# pyright: basic
# pyright: reportMissingImports=false
"""Cycles of a steady-state iteration of generated kernels, on a Hopper GPU.

    python benchmarks/cycles.py FOLDER [KERNEL ...]

FOLDER holds KERNEL.so, as for hopper.py. Each kernel runs as one wave of a thread block per SM, so that all SMs load at once, with three
trip counts; the slope of the SM cycles (`sm__cycles_elapsed.max` of `ncu --clock-control none`, the median of a few launches) over the
longest trip count of a block is the time of an iteration, whatever comes before and after the loop. Prints JSON: by kernel, the trip
counts, their cycles, and cycles per iteration between each two neighbours. Needs PyTorch and ncu.
"""

import csv
import ctypes
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from hopper import half, launch, poisoned

LAUNCHES = 5
TRIPS = (33, 66, 132)
TILE, BLOCK_K, BLOCKS, HEADS = 128, 64, 33, 4
"""Rows of a thread block's tile, K of an iteration of a product; query blocks and heads that make one wave of 132."""
METRIC = "sm__cycles_elapsed.max"


def product(library, name, trips):
    """12 x 11 tiles."""
    width = TILE if name == "dual_gemm" else 2 * TILE
    m, n, k = 12 * TILE, 11 * width, BLOCK_K * trips
    a, c, weights = half(m, k), poisoned(m, n), [half(n, k) for _ in range(1 + (name == "dual_gemm"))]
    sums = [poisoned(m, dtype=torch.float32)] if name == "gemm_reduction" else []
    launch(library, name, (132, 1, 1), a, *weights, c, *sums, m, n, k)


def attention(library, name, trips):
    """As many keys as make `trips` blocks; of the queries, one wave. A causal kernel's longest block sees all keys but its own."""
    causal, length = name.endswith("causal"), TILE * trips
    grid = (trips, BLOCKS * HEADS // trips, 1) if causal else (BLOCKS, HEADS, 1)
    q, k, v = (half(HEADS, length, TILE) for _ in range(3))
    launch(
        library, name, grid, q, k, v, poisoned(HEADS, length, TILE), poisoned(HEADS, length, dtype=torch.float32), TILE**-0.5, HEADS, length
    )


KERNELS = {
    **dict.fromkeys(["gemm", "gemm_persistent", "dual_gemm", "gemm_reduction"], product),
    **dict.fromkeys(["fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal"], attention),
}


def run(folder, names):
    """What ncu watches: every kernel, trip count after trip count."""
    for name in names:
        library = ctypes.CDLL(str(Path(folder) / f"{name}.so"))
        for trips in TRIPS:
            for _ in range(LAUNCHES):
                KERNELS[name](library, name, trips)


def measured(folder, names):
    """Cycles of every launch, in order."""
    profiler = ["ncu", "--clock-control", "none", "--csv", "--metrics", METRIC, "--kernel-name", f"regex:^({'|'.join(names)})_kernel"]
    command = [*profiler, sys.executable, __file__, "--launch", folder, *names]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = csv.DictReader(text[text.index('"ID"') :].splitlines())
    return [float(row["Metric Value"].replace(",", "")) for row in rows]


def main(folder, names):
    cycles = iter(measured(folder, names))
    for name in names:
        found = [median(next(cycles) for _ in range(LAUNCHES)) for _ in TRIPS]
        slopes = [round((c1 - c0) / (t1 - t0), 1) for (t0, c0), (t1, c1) in pairwise(zip(TRIPS, found, strict=True))]
        print(json.dumps({"kernel": name, "trips": TRIPS, "cycles": found, "each": slopes}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        run(sys.argv[2], sys.argv[3:])
    else:
        main(sys.argv[1], sys.argv[2:] or list(KERNELS))
