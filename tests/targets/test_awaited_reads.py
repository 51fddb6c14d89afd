"""What several statements read of one slot is awaited together, behind the last of them."""

from twill.ir.operands import Iteration, Read, Slot
from twill.ir.statements import SLICES, Compute, ConsumerRelease, Statement
from twill.targets.cuda.loops.awaited_reads import Together, together

TILE = Slot("x", 0, Iteration("newest", 0))
OTHER = Slot("x", 1, Iteration("newest", 0))


def reading(*slots: Slot, end: int = SLICES) -> Compute:
    return Compute("one", (0,), tuple(Read(number, slot) for number, slot in enumerate(slots)), end=end)


def found(*statements: Statement, slots: tuple[Slot, ...] = (TILE, OTHER)) -> list[Together]:
    return together(statements, lambda _, slot: slot in slots)


def test_a_tile_that_several_statements_read_is_awaited_once() -> None:
    assert found(reading(TILE), reading(OTHER), reading(TILE, OTHER), reading()) == [
        Together(TILE, (0, 2)),
        Together(OTHER, (1, 2)),
    ]


def test_a_tile_that_one_statement_reads_is_awaited_there() -> None:
    assert found(reading(TILE), reading(OTHER)) == []


def test_no_word_goes_past_a_release() -> None:
    release = ConsumerRelease("x", reading().at)
    assert found(reading(TILE), release, reading(TILE)) == []
    assert found(reading(TILE), reading(TILE), release, reading(TILE)) == [Together(TILE, (0, 1))]


def test_reads_that_are_not_awaited_need_no_word() -> None:
    assert found(reading(TILE), reading(TILE), slots=(OTHER,)) == []


def test_operations_in_parts_await_their_own_reads() -> None:
    assert found(reading(TILE, end=SLICES // 2), reading(TILE)) == []
