"""More thread blocks on an SM than were scheduled, where ptxas spills nothing so, or little."""

from dataclasses import replace

import pytest

from tests.generation.test_multistage import _generated
from tests.kernels.programs import changed, loops, program
from twill.generation.builds.more_blocks import LEAST_GIVEN, LEAST_USED, in_more_blocks, loaded
from twill.generation.builds.retries import keeps_little
from twill.generation.builds.spills import Compiled, least_spilled
from twill.generation.generated import Generated, source
from twill.inputs import Inputs
from twill.warp.lean import lean
from twill.warp.plan import Options
from twill.warp.residency import registers_in_warps

MANY = ("256 bytes of registers are spilled, of 96 registers per thread",)
FEW = ("16 bytes of registers are spilled, of 96 registers per thread",)


def tried(
    monkeypatch: pytest.MonkeyPatch,
    used: int,
    least: int,
    most: int = 32,
    few: int = 0,
    gain: int = 1,
    slower: float = 1e10,
    made: Generated | None = None,
    waits: bool = True,
    part: float = LEAST_USED,
    fills: bool | None = None,
    spared: int = 0,
) -> Compiled | None:
    """For a kernel of which ptxas used so many registers, and which spills with less than `least`, little
    with `few` at least, and nothing with `spared` where ptxas optimizes for fewer; thread blocks hide what
    others wait for by the power `gain`. Otherwise than where it `waits`, one of its units is nearly always
    busy. Its blocks fill an SM more than those of another form where it `fills`; None where there is no
    other."""

    def said(made: Generated) -> tuple[str, ...]:
        registers = made.program.launch.entry_registers
        enough = registers >= least or (made.program.sparing and registers >= (spared or least))
        return () if enough else FEW if few and registers >= few else MANY

    def waiting(made: Generated) -> float:
        return 1e9 / made.program.launch.blocks**gain

    def pace(made: Generated) -> float:
        return waiting(made) if waits else 0.0

    def not_short(*given: object) -> dict[int, int]:
        return {}

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    monkeypatch.setattr("twill.generation.builds.more_blocks.pace_of_sm", pace)
    monkeypatch.setattr("twill.generation.builds.more_blocks.trips_if_short", not_short)
    monkeypatch.setattr("twill.generation.builds.more_blocks.time_of_sm", waiting)
    monkeypatch.setattr("twill.generation.builds.more_blocks.fill_more", lambda *given: fills)  # pyright: ignore
    one = made or _few()
    apart = None if fills is None else one
    return in_more_blocks(Compiled(one, ()), used, most, Options(), slower, part, apart)


def _few(shared: int = 0, blocks: int = 8) -> Generated:
    """A kernel with so many thread blocks of two warps on an SM, two slots in each, with `shared` bytes more
    of shared memory."""
    made = _generated("pointers_two_warps", depths={"x_28_y_37": 2})
    registers = registers_in_warps(made.loops[0].machine.limits, 2 * blocks)
    launch = replace(made.program.launch, blocks=blocks, entry_registers=registers)
    memory = replace(made.program.shared, bytes=made.program.shared.bytes + shared)
    return replace(made, program=replace(made.program, launch=launch, shared=memory))


def test_as_many_blocks_as_spill_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(monkeypatch, used=112, least=96)
    assert found is not None
    launch = found.made.program.launch
    assert (launch.blocks, launch.entry_registers) == (10, 96)
    assert "__maxnreg__(96)" in found.made.cuda


def test_not_where_ptxas_spills_or_has_far_fewer_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, used=112, least=104) is None
    assert tried(monkeypatch, used=168, least=0) is None


@pytest.mark.parametrize(("part", "found"), [(LEAST_USED, False), (LEAST_GIVEN, True)])
def test_half_of_the_registers_that_a_schedule_counts(
    monkeypatch: pytest.MonkeyPatch, part: float, found: bool
) -> None:
    assert (tried(monkeypatch, used=192, least=96, part=part) is not None) == found


@pytest.mark.parametrize(("gain", "blocks"), [(2, 11), (1, 10), (0, 10)])
def test_little_spilled_where_that_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, gain: int, blocks: int
) -> None:
    """With 80 registers for each thread, in place of 96; not for a tenth."""
    found = tried(monkeypatch, used=112, least=96, few=80, gain=gain)
    assert found is not None
    assert found.made.program.launch.blocks == blocks
    assert found.said == (FEW if blocks > 10 else ())


def test_nothing_spilled_in_as_many_blocks_in_fewer_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(monkeypatch, used=112, least=96, few=80, gain=2, spared=80)
    assert found is not None
    assert (found.made.program.launch.blocks, found.said) == (11, ())
    assert "#define TWILL_REGISTER_USAGE_LEVEL 2\n" in found.made.cuda


@pytest.mark.parametrize("gain", [True, False])
def test_beside_a_busy_unit_only_what_is_clearly_faster(monkeypatch: pytest.MonkeyPatch, gain: bool) -> None:
    assert (tried(monkeypatch, used=112, least=96, gain=gain, waits=False) is not None) == gain


@pytest.mark.parametrize(("slower", "found"), [(1e9 / 8, True), (1e9 / 10, False)])
def test_only_what_is_clearly_faster_than_another_form(
    monkeypatch: pytest.MonkeyPatch, slower: float, found: bool
) -> None:
    assert (tried(monkeypatch, used=112, least=96, slower=slower) is not None) == found


@pytest.mark.parametrize("fills", [True, False])
def test_no_slower_than_another_form_whose_blocks_fill_less(
    monkeypatch: pytest.MonkeyPatch, fills: bool
) -> None:
    assert (tried(monkeypatch, used=112, least=96, slower=1e9 / 10, fills=fills) is not None) == fills


@pytest.mark.parametrize("gain", [True, False])
def test_with_fewer_slots_where_that_is_clearly_faster(monkeypatch: pytest.MonkeyPatch, gain: bool) -> None:
    monkeypatch.setattr("twill.generation.builds.more_blocks.LEAST_SLOTS", 1)
    made = _few()
    before = [one.depth for one in loaded(made.program)]
    free = 233472 // 9 - 2048 - made.program.shared.bytes  # what nine thread blocks leave each
    found = tried(monkeypatch, used=112, least=96, made=_few(shared=free + 1), gain=gain)
    if not gain:
        assert found is None
        return
    assert found is not None
    assert found.made.checked is None
    assert max(one.depth for one in loaded(found.made.program)) == max(before) - 1


def test_with_fewer_slots_and_as_many_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of two warps have as many in four blocks as in three: kernels that differ in their slots alone
    have the same CUDA beside the registers."""
    monkeypatch.setattr("twill.generation.builds.more_blocks.LEAST_SLOTS", 1)
    free = 233472 // 4 - 2048 - _few().program.shared.bytes
    made = _few(free + 1, blocks=3)
    found = tried(monkeypatch, used=176, least=96, most=4, made=made)
    assert found is not None
    assert found.made.program.launch.blocks == 4
    assert found.made.program.launch.entry_registers == made.program.launch.entry_registers


def test_with_the_one_slot_that_a_loop_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _few()
    single = tuple(replace(one, depth=1) for one in made.program.channels)
    made = replace(made, program=replace(made.program, channels=single))
    found = tried(monkeypatch, used=112, least=96, made=made)
    assert found is not None
    assert found.made.program.launch.blocks > made.program.launch.blocks


@pytest.mark.parametrize("walks", [True, False])
def test_a_kernel_that_walks_over_programs_is_alone_on_an_sm(
    monkeypatch: pytest.MonkeyPatch, walks: bool
) -> None:
    """It is launched with one thread block for each SM."""

    def persistent(*given: object, nested: bool) -> bool:
        return False

    def fitting(made: Generated, blocks: int, lowering: Options) -> Generated:
        return made

    if not walks:
        monkeypatch.setattr("twill.generation.builds.more_blocks.persistent", persistent)
    monkeypatch.setattr("twill.generation.builds.more_blocks._fitting", fitting)
    walking = changed("grouped", Options(multistage=True))
    made = Generated(Inputs(""), walking, loops("grouped")[1], {}, "")
    assert made.program.launch.blocks == 1
    assert (tried(monkeypatch, used=160, least=128, made=made) is None) == walks


@pytest.mark.parametrize("gain", [2, 1, 0])
def test_few_spills_stay_where_fewer_blocks_are_slower(monkeypatch: pytest.MonkeyPatch, gain: int) -> None:
    """Eight thread blocks with 128 registers for a thread, of which ptxas spills few; seven with 136, which
    take clearly longer, a seventh longer, or no longer."""
    made = _few()

    def said(one: Generated) -> tuple[str, ...]:
        return () if one.program.launch.entry_registers > 128 else FEW

    def predicted(one: Generated) -> float:
        return 1e9 / one.program.launch.blocks**gain

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    monkeypatch.setattr("twill.generation.builds.spills.time_of_sm", predicted)
    found = least_spilled(Compiled(made, FEW))
    assert found.worth_it == (gain == 2)
    assert (found.made.program.launch.blocks == 8) == found.worth_it
    assert bool(found.said) == found.worth_it


@pytest.mark.parametrize(("blocks", "again"), [(2, False), (3, True)])
def test_copies_of_a_lean_program_compute_masks_again(blocks: int, again: bool) -> None:
    """Tiles that are copied, beside so many thread blocks on an SM."""
    plain = Generated(Inputs(""), program("consulted"), loops("consulted")[1], {}, "")
    launch = replace(plain.program.launch, blocks=blocks)
    plain = replace(plain, program=replace(plain.program, launch=launch))
    plain = replace(plain, cuda=source(plain.program, plain.loops))
    assert not keeps_little(plain)
    assert keeps_little(replace(plain, program=lean(plain.program))) == again


def test_copies_with_few_registers_compute_addresses_again() -> None:
    made = Generated(Inputs(""), program("consulted"), loops("consulted")[1], {}, "")
    groups = (replace(one, registers=24) if one.only_moves else one for one in made.program.groups)
    launch = replace(made.program.launch, blocks=3)
    few = replace(made.program, launch=launch, groups=tuple(groups))
    assert keeps_little(replace(made, program=few, cuda=source(few, made.loops)))


def test_no_more_than_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, used=112, least=0, most=8) is None


def test_an_sm_is_in_four_partitions() -> None:
    limits = _generated("pointers_two_warps").loops[0].machine.limits
    assert [registers_in_warps(limits, warps) for warps in (8, 9, 12, 16, 17)] == [248, 168, 168, 128, 96]
