"""Kernels of which several warps hold copies of the same accumulators: with the warps that hold none."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.warps.fewer_warps import lessened, needed_warps
from twill.extract.rewrite.warps.narrow_modules import accumulator_tiles
from twill.generation.attempt import Attempt
from twill.generation.choices.multistage import CLEARLY, multistage
from twill.generation.choices.stated import Stated
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Case, Inputs, cases, chosen_loops, origin
from twill.ir.distribution import distribution
from twill.ir.loop import Linear, Module, NvidiaMma
from twill.simulate.check import check
from twill.warp.plan import Options

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def inverted(a, b, n):
    i = tl.arange(0, 16)
    a += tl.program_id(0) * 1024
    b += tl.program_id(0) * 1024
    places = i[:, None] * 32 + i[None, :]
    one = -tl.where(i[:, None] > i[None, :], tl.load(a + places).to(tl.float32), 0.0)
    for k in range(2, min(16, n)):
        row = -tl.load(a + k * 32 + i)
        row = tl.where(i < k, row, 0.0)
        row += tl.sum(row[:, None] * one, 0)
        one = tl.where((i == k)[:, None], row, one)
    one += i[:, None] == i[None, :]
    below = tl.load(a + places + 512).to(tl.float32)
    tl.store(b + places, one)
    below = tl.dot(one, below, input_precision="tf32")
    tl.store(b + places + 512, -tl.dot(below, one, input_precision="tf32"))

TWILL = {"inverted": {"a": "*bf16:16", "b": "*fp32:16", "n": "i32", "num_warps": 4}}
"""
"""One tile of 16 rows and columns, which is solved row by row, and products of it."""
SCHEDULED = 3.0
"""Seconds."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    path = tmp_path_factory.mktemp("kernels") / "solved.py"
    path.write_text(KERNEL, encoding="utf-8")
    return Inputs(f"{path}:inverted", arch="sm90", own_descriptors=True)


@pytest.fixture(scope="module")
def made(inputs: Inputs) -> Generated:
    return generate(inputs, GenerateOptions(time_limit=SCHEDULED, check=False))


def module(kernel: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return read(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize(
    ("kernel", "warps"), [("gram", 2), ("leafed", 2), ("pointers_16", 4), ("pointers_one_warp", 1)]
)
def test_warps_that_hold_no_copies(kernel: str, warps: int) -> None:
    assert needed_warps(module(kernel)) == warps


def test_mmas_of_warpgroups_and_of_no_tensor_core_need_all_warps() -> None:
    assert needed_warps(module("matmul_half")) == module("matmul_half").num_warps
    assert needed_warps(module("exactly")) == module("exactly").num_warps


@pytest.mark.parametrize("kernel", ["gram", "leafed", "confined"])
def test_fewer_warps_hold_no_copies(kernel: str) -> None:
    made = lessened(module(kernel), 2)
    assert made.num_warps == needed_warps(made) == 2
    layouts = [one for one in made.encodings.values() if isinstance(one, NvidiaMma)]
    spreads = [distribution(one, tile.shape) for one in layouts for tile in accumulator_tiles(made, one)]
    assert spreads
    assert all(one is not None and all(map(any, one.warp)) for one in spreads)


def test_linear_layouts_lose_copies_first() -> None:
    """A thread holds what the other warps held."""
    text = module("gram").text
    text = (
        "#copied = #ttg.linear<{register = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],"
        " warp = [[8, 0], [0, 0]], block = []}>\n" + text
    )
    given = read(text, "gram.ttgir")
    half, one = (lessened(given, warps).encodings["#copied"] for warps in (2, 1))
    assert isinstance(half, Linear)
    assert isinstance(one, Linear)
    assert (half.register, half.warp) == (((0, 1),), ((8, 0),))
    assert (one.register, one.warp) == (((0, 1), (8, 0)), ())


def test_more_warps_are_not_made() -> None:
    given = module("gram")
    assert lessened(given, given.num_warps) is given
    assert lessened(given, 2 * given.num_warps) is given


def test_loops_of_the_fewest_warps_come_first(inputs: Inputs) -> None:
    assert origin(inputs)[0].num_warps == 4
    found = [loops[0].module for loops in Stated(inputs, cases(inputs)).without_copies()]
    assert [one.num_warps for one in found if one] == [1, 2]
    assert not [*Stated(replace(inputs, warps=8), cases(inputs)).without_copies()]


def test_a_kernel_has_the_warps_that_hold_no_copies(made: Generated) -> None:
    (group,) = made.program.groups
    assert group.warps == 1
    assert made.program.launch.threads == 32
    assert "hold no copies" in " ".join(made.program.notes)
    assert check(made.program, lambda what: None).values


def test_its_tile_is_reduced_with_the_fewest_exchanges(made: Generated) -> None:
    """Rows of four lanes and two columns of a thread; as an MMA has it, of eight and four."""
    apart = {line.split(", ")[-1] for line in made.cuda.splitlines() if "__shfl_xor_sync(~0u, row" in line}
    assert apart == {"8));", "16));"}


def test_its_loop_loads_rows_together(made: Generated) -> None:
    assert "for (int together_ = 0; together_ < 4; ++together_" in made.cuda


def test_what_changes_no_digit_is_not_rounded(made: Generated) -> None:
    assert "to_bf16" not in made.cuda


@pytest.mark.parametrize("gained", [True, False])
def test_taken_where_that_is_clearly_faster(monkeypatch: pytest.MonkeyPatch, gained: bool) -> None:
    kernel = "pointers_one_warp"
    (_, both), first = loops(kernel), Attempt((), program(kernel), loops(kernel)[1], {}, {})
    few = Attempt((), changed(kernel, Options(multistage=True)), both, {}, {})
    threads = first.program.launch.threads / few.program.launch.threads
    assert threads > 1

    def attempt(given: Sequence[Case]) -> Attempt:
        if given:
            return few
        raise TwillError("not lowered")

    class Alone(Stated):
        def as_written(self) -> tuple[Case, ...]:
            return ()

        def without_copies(self) -> Iterator[tuple[Case, ...]]:
            yield ()
            yield self.loops

    inputs = Inputs(f"tests/kernels/ttgir/{kernel}.sm90.ttgir", arch="sm90")

    def wide(*given: object) -> Attempt:
        return first

    def taken(one: Attempt, trips: object) -> float:
        return 1000.0

    def alone_taken(one: Attempt, trips: object, copies: float) -> float:
        assert copies == threads
        return 1000.0 / CLEARLY * (0.99 if gained else 1.01)

    monkeypatch.setattr("twill.generation.choices.multistage._time", taken)
    monkeypatch.setattr("twill.generation.choices.multistage._time_alone", alone_taken)
    monkeypatch.setattr("twill.generation.choices.multistage._of_warpgroups", wide)
    found = multistage(first, attempt, Alone(inputs, cases(inputs)))
    assert (found is not first) == gained


def test_warps_have_columns_of_their_own(inputs: Inputs) -> None:
    """Of 16 columns two warps have eight each; of four two hold copies."""
    for warps in (2, None):
        given, *_ = chosen_loops(replace(inputs, warps=warps))
        spreads = [one for one in given.encodings.values() if isinstance(one, Linear)]
        assert max(len({vector for vector in one.warp if vector == (0, 8)}) for one in spreads) == 1
