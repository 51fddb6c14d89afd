"""Tiles that threads hold in shared memory in place of registers, each thread its own words."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.kernels.programs import assemble, changed, loops, program
from twill.emulate.check import check
from twill.generation.builds.shared_forms import tiles_in_shared, with_in_shared
from twill.ir.program import Program
from twill.launch.disassembly import tool
from twill.targets import target
from twill.warp.plan import Options
from twill.warp.tiles_in_shared import kept_tiles
from twill.warp.validate import validate

KERNELS = {
    "veiled": ("extf_21", "total_23"),
    "graded": ("acc_10",),
    "mounting": ("ones_9",),
    "paged": ("x_48", "acc"),
    "highest_bytes": ("best_22",),
    "interrupted": ("acc", "more_5"),
    "rehearsed": ("acc_13",),
    "faded": ("convert_layout_29",),
    "streams": ("twill_once0_arg0",),
}
"""Kernels with such tiles: of float32, of 16 bits in pairs, of integers; that no iteration changes, that each
one does, that wait for code behind a loop."""
FREE = {"graded": 65536, "mounting": 16384, "veiled": 98304, "faded": 65536}
"""Bytes that slots leave free, where they take all of the shared memory otherwise."""


def _in_shared(kernel: str) -> Program:
    plain = changed(kernel, Options(free=FREE.get(kernel, 0), most_blocks=1))
    tiles = [(one.group, one.variable.id) for one in kept_tiles(plain)]
    return with_in_shared(plain, [one for one in tiles if one[1] in KERNELS[kernel]])


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_the_values_are_those_of_registers(kernel: str) -> None:
    found = _in_shared(kernel)
    assert {name for _, name in tiles_in_shared(found)} == set(KERNELS[kernel])
    cuda = target("sm90").source(found)
    for name in KERNELS[kernel]:
        assert not re.search(rf" {name}(_v\d+)?\[", cuda)
    limits = loops(kernel)[1][0].machine.limits
    validate(found, limits)
    assert check(found, loops(kernel)[1], cuda, lambda what: None).values


def test_a_tile_that_was_widened_lies_there_in_16_bits() -> None:
    plain = program("veiled")
    (veil,) = (one for one in kept_tiles(plain) if one.variable.id.startswith("extf"))
    found = with_in_shared(plain, [(veil.group, veil.variable.id)])
    buffer = next(one for one in found.buffers if one.id.startswith("tile"))
    assert buffer.bytes == 128 * 128 * 2
    assert found.shared.bytes - plain.shared.bytes == buffer.bytes
    assert "unpack_bf16(shared_at<uint32_t>(memory" in target("sm90").source(found)


def test_four_words_are_one_access(tmp_path: Path) -> None:
    """Of the shorter type eight elements: 16 accesses to a tile of 64 words of a thread, 8 to one of 32."""
    if (disassemble := tool("nvdisasm")) is None:
        pytest.skip("nvdisasm is missing")
    assemble(target("sm90").source(_in_shared("veiled")), tmp_path, level=3)
    command = [disassemble, "-c", str(tmp_path / "all.cubin")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.count("LDS.128") >= 24
    assert text.count("STS.128") >= 24
    assert "LDS.32" not in text
    assert "LDL" not in text
