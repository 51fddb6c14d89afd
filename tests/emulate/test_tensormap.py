"""Tensor maps as kernels change them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.emulate.ptx import kernel
from tests.emulate.test_hazards import BARRIER, BOX, LOAD, ROLES, SOURCE, WAIT
from tests.emulate.test_hazards import MAP as PARAMETER
from twill.emulate import HazardError, Mapped, TensorMap
from twill.emulate.faults import Fault
from twill.emulate.opcodes.boxes import box
from twill.emulate.tensormap import Raw, decode

MAP = TensorMap(4096, "f16", (64, 32), (128,), (64, 32), 128)


def test_sizes_and_strides_are_replaced() -> None:
    raw = Raw.read(MAP.encode()).changed("global_dim", 1, 7).changed("global_stride", 0, 256)
    found = decode(raw.changed("global_address", 0, 8192).write())
    assert (found.address, found.shape, found.strides) == (8192, (64, 7), (256,))


def test_a_size_of_nothing_faults_where_it_is_used() -> None:
    raw = Raw.read(MAP.encode()).changed("global_dim", 0, 0)
    with pytest.raises(Fault, match="no elements along a dimension"):
        decode(raw.write())


PADDED = TensorMap(4096, "b4x16_p64", (256, 32), (128,), (128, 32), 128)


def test_a_padded_box_takes_twice_its_bytes() -> None:
    assert decode(PADDED.encode()) == replace(PADDED, steps=(1, 1))
    assert (PADDED.box_bytes, PADDED.room) == (64 * 32, 128 * 32)


@pytest.mark.parametrize(
    "changed",
    [{"box": (64, 32)}, {"shape": (192, 32)}, {"address": 4112}, {"strides": (144,)}, {"swizzle": 64}],
)
def test_what_tma_does_not_pad(changed: dict[str, Any]) -> None:
    with pytest.raises(Fault, match="b4x16_p64"):
        decode(replace(PADDED, **changed).encode())


COPIED = "\n".join(
    [
        "mov.b64 %d20, map; cvta.param.u64 %d20, %d20; ld.param.u64 %d21, [own];",
        *(f"ld.u64 %d22, [%d20+{at}]; @%p1 st.u64 [%d21+{at}], %d22;" for at in range(0, 128, 8)),
    ]
)
"""The map of the parameter in global memory."""
FENCED = """
    @%p1 fence.proxy.tensormap::generic.release.gpu;
    @%p1 fence.proxy.tensormap::generic.acquire.gpu [%d21], 128;
"""
CHANGED = "    @%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%d21], 1, 48;\n" + FENCED
LOADED = LOAD.replace("mov.b64 %d10, map;", "mov.b64 %d10, %d21;").replace("cvta.param.u64 %d10, %d10;", "")


def run(body: str) -> None:
    parameters = (".u64 out", PARAMETER.removeprefix(".param "), ".u64 own")
    made = kernel(ROLES + COPIED + FENCED + BARRIER + body, parameters, shared=4160, threads=64)
    made.kernel().launch((1,), [np.zeros(64, np.uint32), Mapped(SOURCE.copy(), BOX), np.zeros(16, np.uint64)])


def test_a_map_is_changed_once_its_loads_are_complete() -> None:
    run(LOADED + WAIT + CHANGED)


def test_a_map_is_changed_while_a_load_by_it_is_under_way() -> None:
    with pytest.raises(HazardError, match="changed before the copy of line"):
        run(LOADED + CHANGED + WAIT)


@pytest.mark.parametrize(("first", "good"), [(8, True), (-8, True), (1, False), (4, False)])
def test_a_box_begins_at_a_multiple_of_sixteen_bytes(first: int, good: bool) -> None:
    tensor = TensorMap(0, "f16", (64, 64), (128,), (16, 8))
    if good:
        assert box(tensor, (first, 0)).inner == 32
        return
    with pytest.raises(Fault, match="is no multiple of 8"):
        box(tensor, (first, 0))
