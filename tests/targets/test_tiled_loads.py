"""Which pointer loads TMA can execute: their tensor maps, and the conditions on the arguments."""

import pytest

from tests.kernels.programs import program
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.text.makers import makers_of
from twill.ir.program import Program
from twill.ir.statements import ProducerLoad, walk
from twill.targets.cuda.loads.tiled_form import copied_partly, tiled_form
from twill.targets.cuda.loads.tiled_loads import TiledLoad, tiled
from twill.targets.cuda.values.polynomials import Atom, Polynomial, Scalars, atom, number, text
from twill.targets.hopper import source

X, Y = atom(Atom(1)), atom(Atom(2))


def test_sums_of_products_are_compared_by_value() -> None:
    assert (X + Y) * (X - Y) == X * X - Y * Y
    assert number(0) == X - X
    assert (X * number(3) + number(4)).constant is None
    assert (number(3) * number(4)).constant == 12


@pytest.mark.parametrize(
    ("whole", "by", "quotient", "rest"),
    [
        (X * Y * number(6) + X + number(5), Y * number(2), X * number(3), X + number(5)),
        (X * number(4096) + Y * number(64), number(4096), X, Y * number(64)),
        (X, X * Y, number(0), X),
    ],
)
def test_division_keeps_what_is_no_multiple(
    whole: Polynomial, by: Polynomial, quotient: Polynomial, rest: Polynomial
) -> None:
    assert whole.divided(by) == (quotient, rest)


def test_a_common_divisor_follows_from_those_of_the_atoms() -> None:
    assert (X * number(128) + Y).divisor(lambda one: {1: 1, 2: 256}[one.value]) == 128


def _loads(made: Program) -> dict[str, TiledLoad | None]:
    return {
        made.op(load.ops[-1]).result.name: tiled(made, load, made.channel(one.channel).tensors[load.tensor])
        for group in made.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad)
        for load in one.loads
    }


def _shown(made: Program, one: Polynomial) -> str:
    return text(one, lambda value: made.value(value).name, "")


def test_rows_that_wrap_around_and_a_ragged_end_become_conditions_and_extents() -> None:
    made = program("bumped")
    left = _loads(made)["%left_10"]
    assert left
    assert left.base.name == "%a"
    columns, rows = left.dimensions
    assert (_shown(made, columns.stride), _shown(made, columns.extent), columns.box) == ("1", "(%K)", 64)
    assert (_shown(made, rows.stride), rows.extent.constant, rows.box) == ("(%stride)", 1 << 31, 128)
    assert "(%row_3)) % ((%M))" in _shown(made, rows.coordinate)
    conditions = {(_shown(made, of), multiple) for of, multiple in left.multiples}
    assert conditions >= {("(%M)", 128), ("(%stride)", 8), ("(%K)", 1)}


def test_what_would_not_fit_into_32_bits_is_a_dimension_or_a_condition() -> None:
    """A batch of 65536 elements more for each z; an offset that an argument gives, in 64 bits."""
    made = program("distant")
    left = _loads(made)["%x_21"]
    assert left
    assert [_shown(made, one.coordinate) for one in left.dimensions] == ["(%first) + (%k)", "(%1)", "(%4)"]
    assert [_shown(made, one.stride) for one in left.dimensions] == ["1", "(%stride)", "65536"]
    assert [_shown(made, one) for one in left.given] == ["(%first)"]
    assert "int64_t(first) >= 0 && int64_t(first) < 1073741824" in source(made)


def test_heads_that_are_narrower_than_their_tiles_are_a_dimension_of_their_own() -> None:
    """Heads of 48 columns in tiles of 64: the map ends where a head does, beyond which TMA fills in zeros. The
    number of the first column alone would say that no tile is inside."""
    made = program("bordered")
    heads = _loads(made)["%y_34"]
    assert heads
    assert [_shown(made, one.coordinate) for one in heads.dimensions] == ["0", "(%start)", "(%at_7)"]
    assert [_shown(made, one.stride) for one in heads.dimensions] == ["1", "(%stride)", "(%apart)"]
    assert [one.extent.constant for one in heads.dimensions] == [48, 1 << 31, 1 << 31]
    assert [_shown(made, one) for one, _ in heads.inside] == ["(%10) + (%start) * -1"]


def test_rows_at_numbers_in_memory_are_left_to_copies() -> None:
    found = _loads(program("gathered_rows"))
    assert found["%x_32"] is None
    assert found["%y_36"] is not None


def test_a_tile_beside_copies_is_started_by_one_of_the_threads_that_copy() -> None:
    made = program("gathered_rows")
    form = tiled_form(made)
    assert form
    assert [form.program.value(form.program.op(op).result.id).name for op in form.loads] == ["%y_36"]
    assert {one.filled_by for one in form.program.channels} == {"cp_async"}
    assert [group.warps for group in form.program.groups] == [group.warps for group in made.groups]
    text = source(made)
    assert text.count("mbarrier_expect(") == text.count("tma_load(") > 0


@pytest.mark.parametrize(("kernel", "warps"), [("apportioned", 4), ("bumped", 1)])
def test_warps_share_the_copies_of_tiles_that_lie_partly_outside(kernel: str, warps: int) -> None:
    """Rows of an expert end within a tile; those of `bumped` wrap around, and TMA loads each of its tiles.
    Each warp arrives for a slot, whoever fills it."""
    made = program(kernel)
    form = tiled_form(made)
    assert form
    assert [group.warps for group in form.program.groups if group.only_moves] == [warps]
    assert bool(copied_partly(form)) == (warps > 1)
    text = source(made).split("_kernel(")[1]
    assert ("if (thread.lane == 0) mbarrier_arrive" in text) == (warps > 1)
    assert f".init({warps}, " in text


def test_what_only_pointers_need_is_not_computed() -> None:
    """`bumped` advances its pointers by N * 64, of which the coordinates are free; a tile of `clamped` that
    lies outside of its map is copied, with all that its pointers need."""

    def kept(made: Program) -> set[str]:
        return {one.id for group in made.groups if group.only_moves for one in group.variables}

    for kernel, gone in (("bumped", {"y"}), ("clamped", set[str]())):
        made, form = program(kernel), tiled_form(program(kernel))
        assert form
        assert kept(made) - kept(form.program) == gone


def test_a_remainder_stays_whole() -> None:
    """As a difference it would have a term that is subtracted, as no coordinate may have."""
    lines = (
        *("%a = tt.get_program_id x : i32", "%q = arith.divsi %a, %n : i32", "%p = arith.muli %n, %q : i32"),
        *("%r = arith.subi %a, %p : i32", "%d = arith.subi %p, %a : i32"),
    )
    body = "\n".join(f"    {line} loc(unknown)" for line in lines)
    head = 'module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {\n  tt.func public @f(%n: i32) {\n'
    (function,) = read(f"{head}{body}\n    tt.return loc(unknown)\n  }}\n}}\n", "f").functions
    makers = makers_of(function.walk())
    scalars = Scalars(lambda value: makers.by_value.get(value.id), frozenset(), frozenset())
    values = {value.name: value for op in function.walk() for value in op.results}
    assert scalars.of(values["%r"]) == atom(Atom(values["%r"].id))
    assert scalars.of(values["%d"]) == scalars.of(values["%p"]) - scalars.of(values["%a"])


def test_tiles_that_begin_where_tma_may_not_read_are_left_to_copies() -> None:
    """From the second number of a row TMA reads nothing."""
    found = _loads(program("pacing"))
    assert found["%x_12"]
    assert found["%acc_14"] is None


def test_what_arguments_add_to_columns_is_a_multiple_of_sixteen_bytes() -> None:
    made = program("distant")
    found = {name: load for name, load in _loads(made).items() if load and load.aligned}
    shown = {(name, _shown(made, one), many) for name, load in found.items() for one, many in load.aligned}
    assert shown == {("%x_21", "(%first)", 8)}
