# pyright: basic, reportMissingImports=false
"""Kernels that Triton compiled, as files: a binary, and what its launch needs to know.

They are launched through the driver: no Triton of that version is needed on the machine with the GPU.
"""

import ctypes
import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import click

SHARED = 232448
"""Bytes of shared memory of a thread block on sm_90."""
OPTED_IN = 48 * 1024
"""Above this many bytes of shared memory a kernel has to ask for them."""
SCRATCH = 2**26
"""Bytes for descriptors that kernels make."""
MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES (cuda.h)."""


def write(path: Path, ptx: str, cubin: bytes, shared: int, arguments: Sequence[str]) -> bool:
    """The binary, and beside it a file of what a launch needs; False where a thread block has not so much
    shared memory. `arguments` are names in order."""
    if shared > SHARED:
        return False
    entry = re.search(r"\.entry (\w+)\((.*?)\)", ptx, re.DOTALL)
    threads = re.search(r"\.reqntid (\d+)", ptx)
    assert entry
    assert threads
    facts = {
        "entry": entry[1],
        "shared": shared,
        "threads": int(threads[1]),
        "parameters": re.findall(r"\.param (?:\.align \d+ )?\.(\w+)", entry[2]),
        "arguments": list(arguments),
    }
    path.write_bytes(cubin)
    path.with_suffix(".json").write_text(json.dumps(facts))
    return True


class Binary:
    """A kernel of Triton's, launched through the driver."""

    def __init__(self, cubin: Path) -> None:
        import torch

        self.facts = json.loads(cubin.with_suffix(".json").read_text())
        self.driver, self.function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        self.scratch = torch.zeros(SCRATCH, dtype=torch.uint8, device="cuda")
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
        name = self.facts["entry"].encode()
        self._call("cuModuleGetFunction", ctypes.byref(self.function), module, name)
        if self.facts["shared"] > OPTED_IN:
            self._call("cuFuncSetAttribute", self.function, MAX_DYNAMIC_SHARED, self.facts["shared"])

    def launch(self, grid: Sequence[int], given: Mapping[str, Any]) -> None:
        """`given`: the arguments by name."""
        import torch

        values = [given[name] for name in self.facts["arguments"]]
        kinds = self.facts["parameters"]
        values += [self.scratch] * (len(kinds) - len(values))
        cells = [_cell(value, kind) for value, kind in zip(values, kinds, strict=True)]
        addresses = [ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in cells]
        passed = (ctypes.c_void_p * len(cells))(*addresses)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        extents = (*grid, 1, 1)[:3]
        block = (self.facts["threads"], 1, 1)
        shared = self.facts["shared"]
        self._call("cuLaunchKernel", self.function, *extents, *block, shared, stream, passed, None)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise click.ClickException(f"{name} gives CUDA error {status}")


class TensorMap:
    """A CUtensorMap of matrices in rows, swizzled by 128 bytes, or by as many as a block's rows have, as
    Triton reads tiles that are so wide: a box has a block's extents, of the last no more than 128 bytes
    (cuda.h, cuTensorMapEncodeTiled). A block of fewer rows than the swizzle has is not swizzled, and is
    one box.
    """

    BYTES, ALIGNED = 128, 64
    SWIZZLED, ROWS = 128, 8
    """Bytes of a row of the widest swizzle, and its rows."""
    TYPES: ClassVar = {"float16": 6, "float32": 7, "bfloat16": 9, "float8_e4m3fn": 0, "uint8": 0}
    """CUtensorMapDataType; 8-bit floats as bytes."""
    SWIZZLE_NONE, L2_128B = 0, 2
    SWIZZLES: ClassVar = {32: 1, 64: 2, 128: 3}
    """CUtensorMapSwizzle, by bytes of a row."""

    def __init__(self, matrix: Any, block: Sequence[int]) -> None:
        size = matrix.element_size()
        width = min(block[-1] * size, self.SWIZZLED)
        self.room = (ctypes.c_byte * (self.BYTES + self.ALIGNED))()
        self.address = -(-ctypes.addressof(self.room) // self.ALIGNED) * self.ALIGNED
        rank = matrix.dim()
        swizzled = prod(block[:-1]) >= self.ROWS
        strides = [matrix.stride(axis) * size for axis in reversed(range(rank - 1))]
        status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
            ctypes.c_void_p(self.address),
            self.TYPES[str(matrix.dtype).removeprefix("torch.")],
            rank,
            ctypes.c_void_p(matrix.data_ptr()),
            (ctypes.c_uint64 * rank)(*reversed(matrix.shape)),
            (ctypes.c_uint64 * (rank - 1))(*strides),
            (ctypes.c_uint32 * rank)(width // size if swizzled else block[-1], *reversed(block[:-1])),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,
            self.SWIZZLES[width] if swizzled else self.SWIZZLE_NONE,
            self.L2_128B,
            0,
        )
        if status:
            raise click.ClickException(f"cuTensorMapEncodeTiled gives CUDA error {status}")


def _cell(value: Any, kind: str) -> Any:
    """An argument in memory, by the type of the PTX parameter."""
    if isinstance(value, TensorMap):
        return (ctypes.c_byte * TensorMap.BYTES).from_address(value.address)
    if hasattr(value, "data_ptr"):
        return ctypes.c_uint64(value.data_ptr())
    if kind == "f32":
        return ctypes.c_float(value)
    return (ctypes.c_int64 if kind.endswith("64") else ctypes.c_int32)(int(value))
