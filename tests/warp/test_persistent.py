"""Kernels made to walk over their grids: the same results from any number of blocks, and the loader running
on."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from re import findall

import pytest

from tests.kernels.programs import loops
from tests.simulate.test_values import grid
from twill.diagnostics import TwillError
from twill.extract.frontend.persistent import Order, persistent
from twill.extract.reader.ttgir import read
from twill.inputs import Inputs, cases
from twill.ir.loop import Function
from twill.ir.program import Program
from twill.ir.statements import For, Pipelined, ProducerLoad, walk
from twill.simulate.compare import arguments, compare
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.interpret import interpret
from twill.simulate.protocol import HazardError
from twill.simulate.races import races
from twill.targets import target
from twill.targets.hopper import source
from twill.warp.lower import lower
from twill.warp.plan import Options
from twill.warp.tasks import Scheduled

NUMBERS = {
    "gemm": {"M": 512, "N": 512, "K": 192},
    "gemm_reduction": {"M": 512, "N": 512, "K": 192},
    "fa_fwd_subtiled": {"heads": 2, "length": 256, "scale": 0.09},
}
EXTENTS = {"twill_grid_x": 2, "twill_grid_y": 2, "twill_grid_z": 2}


def made(kernel: str, options: Options | None = None, arch: str = "sm90") -> Program:
    """The example made persistent, with the schedule that it has anyway."""
    plain = kernel.removesuffix("_passed")
    found = cases(Inputs(f"examples/ttgir/{plain}.{arch}.ttgir", arch=arch, persistent=True))
    _, scheduled = loops(kernel if arch == "sm90" else f"{kernel}.{arch}")
    new = [
        Scheduled(case.loop, case.graph, one.problem, one.solution, case.machine)  # pyright: ignore
        for case, one in zip(found, scheduled, strict=True)
    ]
    assert found[0].module
    return lower(found[0].module, new, target(arch), options)


def run(function: Function, numbers: dict[str, float], places: list[dict[str, int]]) -> dict[str, bytes]:
    """What is in memory after these programs."""
    values, memory = arguments(function, numbers)
    for place in places:
        interpret(function, values, memory, place)
    return {name: array.tobytes() for name, array in memory.arrays.items()}


@pytest.mark.parametrize("blocks", [1, 3])
def test_every_program_of_the_grid_is_executed(blocks: int) -> None:
    numbers = {"heads": 2, "length": 256, "scale": 0.09}
    _, (one,) = loops("fa_fwd_subtiled")
    whole = [grid(x, y, (2, 2)) for x, y in product(range(2), range(2))]
    found = made("fa_fwd_subtiled").function
    extents = {"twill_grid_x": 2, "twill_grid_y": 2, "twill_grid_z": 1}
    assert run(found, numbers | extents, [grid(x, 0, (blocks, 1)) for x in range(blocks)]) == run(
        one.loop.function, numbers, whole
    )


@pytest.mark.parametrize("kernel", NUMBERS)
def test_warp_programs_compute_the_same(kernel: str) -> None:
    found = compare(made(kernel), NUMBERS[kernel] | EXTENTS | {"twill_grid_z": 1}, grid(0, 0, (2, 1)))
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


@pytest.mark.parametrize("kernel", NUMBERS)
def test_no_interleaving_goes_wrong(kernel: str) -> None:
    for trips, tiles in ((0, 2), (1, 3), (2, 2), (3, 2)):
        assert explore(made(kernel), same(trips, tiles)).complete
    assert adversaries(made(kernel), same(5, 4)) > 20


def test_the_loader_runs_on_into_the_next_program() -> None:
    """Nothing of the loader's waits for the end of a program: between two loads there are only loops and
    sums."""
    loader = made("gemm").groups[0]
    (tiles,) = [statement for statement in loader.body if isinstance(statement, For)]
    assert any(isinstance(statement, Pipelined) for statement in tiles.body)
    assert {type(s).__name__ for s in walk(tiles.body)} == {"Pipelined", "ProducerLoad", "Advance", "Compute"}
    assert any(isinstance(s, ProducerLoad) for s in walk(tiles.body))


def test_the_next_queries_are_loaded_while_a_tile_is_computed() -> None:
    """Into a slot of their own, so results are not staged there."""
    one = made("fa_fwd_subtiled")
    assert {channel.id: channel.depth for channel in one.channels} == {"x0": 2, "x1": 2, "y_10": 2, "z": 2}
    assert all(buffer.overlays is None for buffer in one.buffers)
    given = made("fa_fwd_subtiled", Options(depths={"x0": 1, "x1": 1, "y_10": 3, "z": 3}))
    assert [buffer.id for buffer in given.buffers if buffer.overlays] == ["x0.staging", "x1.staging"]


def test_lines_stay_where_they_are() -> None:
    text = Path("examples/ttgir/gemm.sm90.ttgir").read_text()
    before, after = read(text, "gemm"), persistent(read(text, "gemm"))
    places = {op.result.name: op.location.line for op in before.functions[0].walk() if len(op.results) == 1}
    assert all(
        places.get(op.result.name, op.location.line) == op.location.line
        for op in after.functions[0].walk()
        if len(op.results) == 1
    )
    assert before.text.count("\n") == after.text.count("\n")


def numbered(text: str, grid: tuple[int, int, int], number: int) -> dict[str, int]:
    """What the integers of a persistent kernel's first line are, for a tile by its number."""
    found = dict(zip(["%twill_grid_x", "%twill_grid_y", "%twill_grid_z"], grid, strict=True))
    found["%twill_number"] = number
    meaning: dict[str, Callable[[int, int], int]] = {
        "muli": lambda a, b: a * b,
        "addi": lambda a, b: a + b,
        "subi": lambda a, b: a - b,
        "divsi": lambda a, b: a // b,
        "remsi": lambda a, b: a % b,
        "minsi": lambda a, b: min(a, b),
    }
    for name, word, first, second in findall(r"(%\w+) = arith\.(\w+) (%?\w+)(?:, (%?\w+))? : i32", text):
        if word == "constant":
            found[name] = int(first)
        elif word in meaning and first in found and second in found:
            found[name] = meaning[word](found[first], found[second])
    return found


def causal(dynamic: bool | None) -> Program:
    """A kernel whose loops are longer the later its rows are, as that made persistent."""
    found = cases(Inputs("examples/ttgir/fa_fwd_causal.sm90.ttgir", arch="sm90", persistent=True))
    _, scheduled = loops("fa_fwd_causal")
    new = [
        Scheduled(case.loop, case.graph, one.problem, one.solution, case.machine)  # pyright: ignore
        for case, one in zip(found, scheduled, strict=True)
    ]
    assert found[0].module
    return lower(found[0].module, new, target("sm90"), Options(dynamic=dynamic))


@pytest.mark.parametrize(("dynamic", "claims"), [(None, True), (False, False), (True, True)])
def test_tiles_of_unequal_length_are_claimed(dynamic: bool | None, claims: bool) -> None:
    program = causal(dynamic)
    assert (program.claiming is not None) == claims
    assert program.counted == claims


def test_tiles_of_equal_length_are_not_claimed() -> None:
    assert made("fa_fwd_subtiled").claiming is None
    assert made("fa_fwd_subtiled", Options(dynamic=True)).claiming is not None


@pytest.mark.parametrize(
    ("kernel", "order", "like"),
    [
        ("fa_fwd_causal", "suited", "claimed"),
        ("fa_fwd_subtiled", "suited", "mirrored"),
        ("fa_fwd_subtiled", "claimed", "neighbours"),
    ],
)
def test_the_order_that_suits_the_tiles(kernel: str, order: Order, like: Order) -> None:
    module = read(Path(f"examples/ttgir/{kernel}.sm90.ttgir").read_text(), kernel)
    assert persistent(module, order).text == persistent(module, like).text


def test_claimed_programs_of_unequal_length_come_rows_together() -> None:
    """Those at one place along x, of four rows at a time; each once."""
    text = persistent(read(Path("examples/ttgir/fa_fwd_causal.sm90.ttgir").read_text(), "fa"), "claimed").text
    along = next(iter(findall(r"(%\w+) = arith\.divsi %twill_place, %twill_width", text)))
    found = [numbered(text, (5, 3, 2), number) for number in range(30)]
    order = [(one[along], one["%twill_row"]) for one in found]
    assert sorted(order) == [(x, row) for x in range(5) for row in range(6)]
    assert order[:6] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert order[20:23] == [(0, 4), (0, 5), (1, 4)]


def test_claimed_programs_of_equal_length_keep_their_order() -> None:
    gemm = persistent(read(Path("examples/ttgir/gemm.sm90.ttgir").read_text(), "gemm"), "claimed").text
    assert "scf.for %twill_tile = %twill_first" in gemm


def test_the_launcher_starts_as_many_blocks_as_fit() -> None:
    text = source(made("gemm"))
    signature = text[text.index("gemm_launch(") :].split("{")[0]
    assert "twill_grid_x" not in signature
    assert "resident_blocks(int64_t(grid_x) * grid_y * grid_z, &blocks)" in text
    assert "<<<dim3(blocks)," in text


def test_a_function_with_a_result_is_refused() -> None:
    with pytest.raises(TwillError, match="can not be made persistent"):
        persistent(
            read("module {\n tt.func public @f(%a: i32) -> i32 {\n tt.return %a : i32\n }\n}\n", "odd.ttgir")
        )


ATTENTION = ("fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal", "fa_bwd")


@pytest.mark.parametrize("kernel", ATTENTION)
def test_memory_is_used_again_once_the_last_tile_is_stored(kernel: str) -> None:
    """On Blackwell: slots in which tiles are staged, and accumulators that one group zeroes and others read."""
    program = made(kernel, arch="sm100")
    assert races(program, same(3, 3)) > 0
    assert explore(program, same(1, 2), 100_000)


def _always(*_: object) -> bool:
    return True


def _none(*_: object) -> tuple[int, ...]:
    return ()


def test_a_load_into_a_slot_that_a_store_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.warp.shared_memory._released_by", _always)
    with pytest.raises(HazardError, match=r"the load to x .* where the store through x\.staging"):
        races(made("fa_fwd_passed", arch="sm100"), same(3, 3))


def test_an_accumulator_zeroed_while_another_group_reads_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.warp.tensor_memory_plan._reusing", _none)
    with pytest.raises(HazardError, match=r"of group 2 uses acc1, where tmem_store of group 1"):
        races(made("fa_fwd_subtiled", arch="sm100"), same(3, 3))
