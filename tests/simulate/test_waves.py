"""How long a launch takes by how many of its thread blocks an SM holds."""

import ctypes
import shutil
from pathlib import Path

import pytest

from twill.emulate.host import compiled
from twill.ir.program import BlockPace
from twill.launch.build import RUNTIME
from twill.simulate.waves import beside, fastest, launch_time

WAITING, SLOTS = BlockPace(6, 265, 136), BlockPace(2, 194, 136)
BUSY = BlockPace(2, 640, 640)

LAUNCHER = """
#include "host.cuh"
__global__ void any_kernel() {}
extern "C" int chosen(long long programs, int held, double* cycles, int* form, int* bytes) {
    const twill::Form forms[] = {{6, 265, 136}, {2, 194, 136}};
    twill::Choice found;
    if (const cudaError_t status = twill::choose(programs, forms, &found)) return status;
    *cycles = forms[0].launch(programs, 132, held), *form = found.form, *bytes = found.bytes;
    return 0;
}
"""


def test_a_block_alone_keeps_its_busiest_unit_waiting_at_times() -> None:
    assert beside(BUSY, 1) == pytest.approx(2 ** (1 / 3) * 640)
    assert 265 < beside(WAITING, 1) < 1.05 * 265
    assert beside(WAITING, 0) == 0


def test_blocks_that_hide_little_for_each_other_stay_beside_each_other() -> None:
    """One after the other is no faster, though all of three are simulated to take as long as three alone."""
    assert fastest([BlockPace(3, 2713, 2557)], 7.76)[1:] == (0, 3)


def test_blocks_that_wait_hide_it_for_each_other() -> None:
    assert beside(WAITING, 2) < 2 * 265
    assert beside(WAITING, 2) > 265
    assert beside(WAITING, 6) == pytest.approx(6 * 136, rel=0.02)


def test_the_last_wave_is_as_long_as_its_fullest_sm() -> None:
    """A launch of a few more blocks than fit takes far longer than one that fits."""
    assert launch_time(WAITING, 6, 6) == beside(WAITING, 6)
    assert launch_time(WAITING, 6.1, 6) == beside(WAITING, 6) + (beside(WAITING, 1) + beside(WAITING, 6)) / 2
    assert launch_time(WAITING, 3.5, 6) == beside(WAITING, 4)


def test_what_is_left_over_behind_many_waves_is_spread() -> None:
    """Blocks begin one by one then: a tail says nothing for another form that takes as long."""
    assert launch_time(BUSY, 7, 2) == 3 * beside(BUSY, 2) + (beside(BUSY, 1) + beside(BUSY, 2)) / 2
    assert launch_time(BUSY, 9, 2) == pytest.approx(4.5 * beside(BUSY, 2))
    assert launch_time(BUSY, 9.9, 2) < 5 * beside(BUSY, 2)
    four, two = BlockPace(4, 1043, 384), BlockPace(2, 561, 384)
    assert fastest([four, two], 17.7)[1:] == (0, 4)
    assert fastest([four, two], 1.7)[1:] == (1, 2)


@pytest.mark.parametrize(
    ("per_sm", "form", "blocks"), [(0.5, 1, 1), (1.9, 1, 2), (5.5, 0, 6), (7.76, 0, 4), (300, 0, 6)]
)
def test_the_choice_follows_from_the_number_of_blocks(per_sm: float, form: int, blocks: int) -> None:
    """Few blocks have more slots; what is left over behind a wave of six is with others in two of four."""
    assert fastest([WAITING, SLOTS], per_sm)[1:] == (form, blocks)


def test_the_first_form_has_all_its_blocks_unless_that_is_clearly_slower() -> None:
    assert fastest([WAITING, BlockPace(6, 260, 134)], 5.5)[1:] == (0, 6)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_launcher_computes_the_same(tmp_path: Path) -> None:
    source = tmp_path / "launcher.cu"
    source.write_text(LAUNCHER)
    host = compiled(source, tmp_path, [RUNTIME])
    cycles, form, least = ctypes.c_double(), ctypes.c_int(), ctypes.c_int()
    for programs in (1, 132, 133, 700, 792, 793, 1024, 5000):
        for held in (1, 4, 6):
            passed = [ctypes.c_longlong(programs), held, *map(ctypes.byref, (cycles, form, least))]
            host.call("chosen", passed, processors=132)
            assert cycles.value == pytest.approx(launch_time(WAITING, programs / 132, held))
        _, wanted, blocks = fastest([WAITING, SLOTS], programs / 132)
        assert form.value == wanted
        most = (WAITING, SLOTS)[wanted].blocks
        assert (233472 // (least.value + 1024) if least.value else most) == blocks
