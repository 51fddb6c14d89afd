# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportArgumentType=false
"""TileLang kernels with the loops and buffers of the examples, for exported schedules.

A program of its own, because TileLang may be installed for another Python than Twill:

    python tilelang_kernels.py EXPORTED.py KERNEL ARCH OUT.cu

writes the CUDA that TileLang makes of the kernel with the schedule, and prints where TileLang's headers are.
"""

import re
import runpy
import sys
from pathlib import Path

import tilelang
import tilelang.language as T  # noqa: N812
from tilelang import tvm

M = N = 512
K = 256
BLOCKS = 3
"""Thread blocks of the persistent kernels."""
BM, BN, BK, HALF = 128, 256, 64, 128
LOG2_E = 1.4426950408889634
F16, F32 = "float16", "float32"
ID = T.WSID
DOTS = ["dot"]
"""The ids of the MMAs in the exported file."""


def gemm(schedule):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)):
        with T.Kernel(N // BN, M // BM, threads=384) as (bx, by):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((BN, BK), F16)
            acc = T.alloc_fragment((BM, BN), F32)
            T.annotate_ws_schedule(
                schedule({"x": x, "y": y}, before={"group_1": ["clear"]}, after={"group_1": ["store"]})
            )
            with T.ws_op("clear"):
                T.clear(acc)
            for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0"}):
                T.copy(A[by * BM, k * BK], x, annotations={ID: "load.x"})
                T.copy(B[bx * BN, k * BK], y, annotations={ID: "load.y"})
                T.gemm(x, y, acc, transpose_B=True, annotations={ID: DOTS[0]})
            T.copy(acc, C[by * BM, bx * BN], annotations={ID: "store"})

    return kernel


def gemm_persistent(schedule):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)):
        with T.Kernel(BLOCKS, threads=384) as (pid,):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((BN, BK), F16)
            acc = T.alloc_fragment((BM, BN), F32)
            T.annotate_ws_schedule(
                schedule({"x": x, "y": y}, before={"group_1": ["clear"]}, after={"group_1": ["store"]})
            )
            for t in T.serial(T.ceildiv(M // BM * (N // BN) - pid, BLOCKS), annotations={ID: "for_0"}):
                with T.ws_op("clear"):
                    T.clear(acc)
                for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0_for_0"}):
                    T.copy(A[(pid + t * BLOCKS) // (N // BN) * BM, k * BK], x, annotations={ID: "load.x"})
                    T.copy(B[(pid + t * BLOCKS) % (N // BN) * BN, k * BK], y, annotations={ID: "load.y"})
                    T.gemm(x, y, acc, transpose_B=True, annotations={ID: DOTS[0]})
                T.copy(
                    acc,
                    C[(pid + t * BLOCKS) // (N // BN) * BM, (pid + t * BLOCKS) % (N // BN) * BN],
                    annotations={ID: "store"},
                )

    return kernel


def dual_gemm(schedule):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), D: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)
    ):
        with T.Kernel(N // HALF, M // BM, threads=384) as (bx, by):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((HALF, BK), F16)
            z = T.alloc_shared((HALF, BK), F16)
            gated, linear = T.alloc_fragment((BM, HALF), F32), T.alloc_fragment((BM, HALF), F32)
            T.annotate_ws_schedule(
                schedule(
                    {"x": x, "y": y, "z": z},
                    before={"group_1": ["clear"]},
                    after={"group_1": ["gate", "store"]},
                )
            )
            with T.ws_op("clear"):
                T.clear(gated)
                T.clear(linear)
            for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0"}):
                T.copy(A[by * BM, k * BK], x, annotations={ID: "load.x"})
                T.copy(B[bx * HALF, k * BK], y, annotations={ID: "load.y"})
                T.copy(D[bx * HALF, k * BK], z, annotations={ID: "load.z"})
                T.gemm(x, y, gated, transpose_B=True, annotations={ID: DOTS[0]})
                T.gemm(x, z, linear, transpose_B=True, annotations={ID: DOTS[1]})
            for i, j in T.Parallel(BM, HALF, annotations={ID: "gate"}):
                linear[i, j] = gated[i, j] / (1.0 + T.exp2(gated[i, j] * -LOG2_E)) * linear[i, j]
            T.copy(linear, C[by * BM, bx * HALF], annotations={ID: "store"})

    return kernel


def gemm_reduction(schedule):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16), S: T.Tensor((M,), F32)
    ):
        with T.Kernel(N // BN, M // BM, threads=384) as (bx, by):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((BN, BK), F16)
            acc, wide = T.alloc_fragment((BM, BN), F32), T.alloc_fragment((BM, BK), F32)
            part, total = T.alloc_fragment((BM,), F32), T.alloc_fragment((BM,), F32)
            T.annotate_ws_schedule(
                schedule(
                    {"x": x, "y": y}, before={"group_1": ["clear"]}, after={"group_1": ["store", "sums"]}
                )
            )
            with T.ws_op("clear"):
                T.clear(acc)
                T.clear(total)
            for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0"}):
                T.copy(A[by * BM, k * BK], x, annotations={ID: "load.x"})
                T.copy(B[bx * BN, k * BK], y, annotations={ID: "load.y"})
                T.gemm(x, y, acc, transpose_B=True, annotations={ID: DOTS[0]})
                T.copy(x, wide, annotations={ID: "ext.total_11"})
                with T.ws_op("reduce_sum.total_12"):
                    T.reduce_sum(wide, part, dim=1)
                for i in T.Parallel(BM, annotations={ID: "add.total_13"}):
                    total[i] += part[i]
            T.copy(acc, C[by * BM, bx * BN], annotations={ID: "store"})
            with T.ws_op("sums"):
                if bx == 0:
                    T.copy(total, S[by * BM])

    return kernel


def gemm_sm100(schedule):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)):
        with T.Kernel(N // BN, M // BM, threads=384) as (bx, by):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((BN, BK), F16)
            acc, out = T.alloc_tmem((BM, BN), F32), T.alloc_fragment((BM, BN), F32)
            T.annotate_ws_schedule(
                schedule(
                    {"x": x, "y": y, "acc_5": acc}, read={"group_2": ["read"]}, after={"group_2": ["store"]}
                )
            )
            for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0"}):
                T.copy(A[by * BM, k * BK], x, annotations={ID: "load.x"})
                T.copy(B[bx * BN, k * BK], y, annotations={ID: "load.y"})
                T.gemm(x, y, acc, transpose_B=True, clear_accum=(k == 0), annotations={ID: DOTS[0]})
            T.copy(acc, out, annotations={ID: "read"})
            T.copy(out, C[by * BM, bx * BN], annotations={ID: "store"})

    return kernel


def gemm_persistent_sm100(schedule):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)):
        with T.Kernel(BLOCKS, threads=384) as (pid,):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((BN, BK), F16)
            acc, out = T.alloc_tmem((BM, BN), F32), T.alloc_fragment((BM, BN), F32)
            T.annotate_ws_schedule(
                schedule(
                    {"x": x, "y": y, "acc": acc}, read={"group_2": ["read"]}, after={"group_2": ["store"]}
                )
            )
            for t in T.serial(T.ceildiv(M // BM * (N // BN) - pid, BLOCKS), annotations={ID: "for_0"}):
                for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0_for_0"}):
                    T.copy(A[(pid + t * BLOCKS) // (N // BN) * BM, k * BK], x, annotations={ID: "load.x"})
                    T.copy(B[(pid + t * BLOCKS) % (N // BN) * BN, k * BK], y, annotations={ID: "load.y"})
                    T.gemm(x, y, acc, transpose_B=True, clear_accum=(k == 0), annotations={ID: DOTS[0]})
                T.copy(acc, out, annotations={ID: "read"})
                T.copy(
                    out,
                    C[(pid + t * BLOCKS) // (N // BN) * BM, (pid + t * BLOCKS) % (N // BN) * BN],
                    annotations={ID: "store"},
                )

    return kernel


def dual_gemm_sm100(schedule):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), F16), B: T.Tensor((N, K), F16), D: T.Tensor((N, K), F16), C: T.Tensor((M, N), F16)
    ):
        with T.Kernel(N // HALF, M // BM, threads=384) as (bx, by):
            x, y = T.alloc_shared((BM, BK), F16), T.alloc_shared((HALF, BK), F16)
            z = T.alloc_shared((HALF, BK), F16)
            gated, linear = T.alloc_tmem((BM, HALF), F32), T.alloc_tmem((BM, HALF), F32)
            g, u = T.alloc_fragment((BM, HALF), F32), T.alloc_fragment((BM, HALF), F32)
            T.annotate_ws_schedule(
                schedule(
                    {"x": x, "y": y, "z": z, "gated": gated, "linear": linear},
                    read={"group_2": ["read_g", "read_u"]},
                    after={"group_2": ["gate", "store"]},
                )
            )
            for k in T.Pipelined(K // BK, num_stages=4, annotations={ID: "for_0"}):
                T.copy(A[by * BM, k * BK], x, annotations={ID: "load.x"})
                T.copy(B[bx * HALF, k * BK], y, annotations={ID: "load.y"})
                T.copy(D[bx * HALF, k * BK], z, annotations={ID: "load.z"})
                T.gemm(x, y, gated, transpose_B=True, clear_accum=(k == 0), annotations={ID: DOTS[0]})
                T.gemm(x, z, linear, transpose_B=True, clear_accum=(k == 0), annotations={ID: DOTS[1]})
            T.copy(gated, g, annotations={ID: "read_g"})
            T.copy(linear, u, annotations={ID: "read_u"})
            for i, j in T.Parallel(BM, HALF, annotations={ID: "gate"}):
                u[i, j] = g[i, j] / (1.0 + T.exp2(g[i, j] * -LOG2_E)) * u[i, j]
            T.copy(u, C[by * BM, bx * HALF], annotations={ID: "store"})

    return kernel


def exported(path):
    return runpy.run_path(path)["schedule"]


def main(path, kernel, arch, out):
    DOTS[:] = dict.fromkeys(re.findall(r"'(dot\.\w+)'", Path(path).read_text()))
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with target:
        made = tilelang.lower(globals()[kernel](exported(path)), target=target)
    Path(out).write_text(made.kernel_source)
    print(Path(tilelang.__file__).parent)


if __name__ == "__main__":
    main(*sys.argv[1:])
