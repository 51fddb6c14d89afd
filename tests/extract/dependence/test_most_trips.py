"""How many iterations a loop has at most, and what follows for its search."""

from dataclasses import replace

import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.inputs import Case, Inputs, cases, shares_of
from twill.ir.loop import shares
from twill.ir.search import Options

BOUNDED = """module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @f(%n: i32, %m: i32) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c100 = arith.constant 100 : i32
    %next = arith.addi %n, %c1 : i32
    %begin = arith.muli %n, %c64 : i32
    %end = arith.muli %next, %c64 : i32
    %far = arith.addi %n, %c100 : i32
    %clipped = arith.minsi %far, %m : i32
    %later = arith.maxsi %n, %m : i32
    scf.for %i = {lower} to {upper} step {step} : i32 {{
    }}
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("lower", "upper", "step", "most"),
    [
        ("%begin", "%end", "%c64", 1),
        ("%n", "%clipped", "%c64", 2),
        ("%later", "%far", "%c64", 2),
        ("%c0", "%c100", "%c64", 2),
        ("%c100", "%c0", "%c64", 0),
        ("%n", "%m", "%c64", None),
        ("%c0", "%clipped", "%c64", None),
        ("%n", "%clipped", "%m", None),
    ],
)
def test_the_bounds_say_how_many(lower: str, upper: str, step: str, most: int | None) -> None:
    (loop,) = loops(read(BOUNDED.format(lower=lower, upper=upper, step=step), "f.ttgir"))
    assert loop.most_trips == most


@pytest.fixture(scope="module")
def causal() -> tuple[Case, ...]:
    return cases(Inputs("examples/ttgir/fa_fwd_causal.sm90.ttgir", arch="sm90", subtile=1))


def test_a_loop_is_searched_for_no_more_iterations_in_flight_than_it_has(causal: tuple[Case, ...]) -> None:
    rows, diagonal = causal
    assert (rows.most_trips, diagonal.most_trips) == (None, 1)
    assert [case.overlaps for case in causal] == [True, False]
    options = Options()
    assert rows.searched(options) is options
    assert diagonal.searched(options) == replace(options, max_in_flight=1, few=True)
    assert diagonal.searched(replace(options, max_in_flight=2)).max_in_flight == 1


def test_a_loop_with_few_iterations_counts_less_beside_another(causal: tuple[Case, ...]) -> None:
    assert shares_of(causal) == (1, 1 / 16)
    _, diagonal = (case.loop for case in causal)
    assert diagonal
    assert shares([diagonal, diagonal]) == (1, 1), "beside none that has more"
    assert shares([diagonal, replace(diagonal, most_trips=4)]) == (1 / 16, 1)
