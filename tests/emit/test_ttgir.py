"""Annotated TTGIR of the example kernels: every operation of the loop is marked, nothing else changes, Triton
reads it."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from twill.diagnostics import TwillError
from twill.emit.ttgir import Dialect, annotate, bare, placements
from twill.extract.dependence.build import graph
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.ir.graph import Graph
from twill.ir.loop import Loop, Module
from twill.ir.problem import Operation, Problem, Resolution, Value
from twill.ir.schedule import Group, Solution

FOLDER = Path(__file__).parents[2] / "examples" / "ttgir"
FILES = sorted(FOLDER.glob("*.ttgir"))
OTHER_VERSIONS = sorted((Path(__file__).parents[1] / "extract" / "fixtures").glob("*/fa_*.ttgir"))
"""The same kernels as five versions of Triton write them."""

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)


class Case(NamedTuple):
    module: Module
    loop: Loop
    graph: Graph
    problem: Problem
    solution: Solution

    def text(self, *extra: Dialect) -> str:
        """The module, annotated."""
        return annotate(self.module, self.loop, self.graph, self.problem, self.solution, extra)

    def marked(self, *extra: Dialect) -> Loop:
        """The loop, annotated."""
        return next(
            other for other in loops(read(self.text(*extra), "annotated")) if other.path == self.loop.path
        )


def case(path: Path) -> Case:
    """The first loop of a file with a made-up schedule: one node after the other, every third in another
    group."""
    module = read(path.read_text(), path.name)
    loop = next(loop for loop in loops(module) if loop.schedulable)
    dependences = graph(module, loop)
    operations = tuple(Operation(node.id, node.op, latency=10) for node in dependences.nodes)
    count = len(operations)
    groups = (Group(0, 1, 24), Group(1, 4, 160), Group(2, 4, 160))
    solution = Solution(40, tuple(range(0, 10 * count, 10)), tuple(v % 3 for v in range(count)), groups)
    return Case(module, loop, dependences, Problem(loop.path, "toy", (), operations, ()), solution)


@pytest.mark.parametrize("path", FILES + OTHER_VERSIONS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_operation_of_the_loop_carries_its_place(path: Path) -> None:
    made = case(path)
    loop, solution, marked = made.loop, made.solution, made.marked()
    assert [op.name for op in marked.body.walk()] == [op.name for op in loop.body.walk()]
    by_index = {old.index: new for old, new in zip(loop.body.walk(), marked.body.walk(), strict=True)}
    for op in by_index.values():
        start, stage, group = (op.attributes[f"twill.{name}"] for name in ("start", "stage", "group"))
        assert isinstance(start, int)
        assert stage == start // 40
        assert group in (0, 1, 2)
    for v, node in enumerate(made.graph.nodes):
        for index in node.ops:
            if index in by_index:
                begun = by_index[index].attributes["twill.start"]
                assert isinstance(begun, int)
                assert begun == solution.start[v] or (begun < solution.start[v] and index != node.ops[-1])
                assert by_index[index].attributes["twill.group"] == solution.group[v]
    assert marked.op.attributes["twill.interval"] == 40
    assert marked.op.attributes["twill.warps"] == (1, 4, 4)


@pytest.mark.parametrize("path", FILES + OTHER_VERSIONS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_nothing_else_changes(path: Path) -> None:
    made = case(path)
    assert bare(made.text()) == made.module.text
    coarse = made._replace(problem=replace(made.problem, resolution=Resolution(48.99)))
    assert bare(coarse.text()) == made.module.text


@needs_triton
def test_a_barrier_takes_no_attributes() -> None:
    from twill.extract.frontend.triton import validate

    text = (FOLDER / "gemm.sm90.ttgir").read_text()
    loop = next(one for one in loops(read(text, "gemm.ttgir")) if one.schedulable)
    at = loop.body.ops[-1].span.start
    made = case(FOLDER / "gemm.sm90.ttgir")
    module = read(f"{text[:at]}ttg.barrier all loc(unknown)\n{text[at:]}", "gemm.ttgir")
    barred = made._replace(module=module, loop=next(one for one in loops(module) if one.schedulable))
    marked = barred._replace(graph=graph(module, barred.loop)).text()
    assert "ttg.barrier all loc(unknown)" in marked
    assert validate(marked, "sm90") == ()


@needs_triton
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_triton_reads_it(path: Path) -> None:
    from twill.extract.frontend.triton import validate

    made = case(path)
    arch = path.name.split(".")[1]
    extra: tuple[Dialect, ...] = ("pipeline", "tasks") if arch == "sm90" else ("pipeline",)
    assert validate(made.text(*extra), arch) == ()


def test_pipeline_attributes_are_stages_and_the_order_of_starts() -> None:
    made = case(FOLDER / "gemm.sm90.ttgir")
    marked = made.marked("pipeline")
    for op in marked.ops:
        start, cluster = op.attributes["twill.start"], op.attributes["loop.cluster"]
        assert isinstance(start, int)
        assert op.attributes["loop.stage"] == start // 40
        assert cluster == sorted({s % 40 for s in made.solution.start}).index(start % 40)
    assert marked.op.attributes["tt.scheduled_max_stage"] == max(made.solution.start) // 40


def test_index_arithmetic_runs_no_later_than_its_first_reader() -> None:
    for path in FILES:
        _, loop, dependences, problem, solution = case(path)
        where = placements(loop, dependences, problem, solution)
        maker = {result.id: op.index for op in loop.ops for result in op.results}
        nodes = {index for node in dependences.nodes for index in node.ops}
        for op in loop.ops:
            for value in op.operands:
                if value.id in maker and maker[value.id] not in nodes:
                    assert where[maker[value.id]].start <= where[op.index].start, path
                    assert set(where[op.index].groups) <= set(where[maker[value.id]].groups), path


def test_a_loop_without_a_yield_places_all_its_operations() -> None:
    one = case(FOLDER / "gemm.sm90.ttgir")
    bare_loop = replace(one.loop, body=replace(one.loop.body, ops=one.loop.ops))
    whole = placements(one.loop, one.graph, one.problem, one.solution)
    places = placements(bare_loop, one.graph, one.problem, one.solution)
    assert places == {op.index: whole[op.index] for op in one.loop.ops}


def test_an_annotated_loop_is_refused() -> None:
    made = case(FOLDER / "gemm.sm90.ttgir")
    again = read(made.text(), "again.ttgir")
    marked = next(other for other in loops(again) if other.path == made.loop.path)
    with pytest.raises(TwillError, match="already has a schedule") as caught:
        made._replace(module=again, loop=marked).text()
    assert caught.value.location


@needs_triton
@pytest.mark.parametrize(
    ("name", "dialect", "skipped"),
    [
        ("gemm.sm100", "pipeline", {"add_assign_latencies", "add_schedule_loops"}),
        ("gemm.sm100", "partition", set[str]()),
        ("fa_fwd_subtiled.sm90", "tasks", set[str]()),
    ],
)
def test_triton_compiles_what_it_is_handed(name: str, dialect: Dialect, skipped: set[str]) -> None:
    """Loads in group 0, everything else in group 1: the shape that all of Triton's passes take."""
    from twill.extract.frontend.triton import finish

    made = case(FOLDER / f"{name}.ttgir")
    groups = tuple(0 if node.kind == "load" else 1 for node in made.graph.nodes)
    handed = made._replace(solution=replace(made.solution, group=groups, interval=10_000))
    binary = finish(
        handed.text(dialect), name.split(".")[1], made.module.num_warps, skipped=frozenset(skipped)
    )
    assert ("ttg.warp_specialize(" in binary.ttgir) == (dialect != "pipeline")


def test_stores_behind_the_loop_belong_to_the_group_whose_result_they_write() -> None:
    made = case(FOLDER / "fa_fwd_subtiled.sm90.ttgir")
    carriers = {
        op.index: op
        for op in made.module.functions[0].walk()
        if op.name in ("tt.descriptor_store", "tt.store")
    }
    marked = read(made.text("tasks"), "marked")
    for old, new in zip(made.module.functions[0].walk(), marked.functions[0].walk(), strict=True):
        if old.index in carriers:
            assert new.attributes["async_task_id"]


def test_loads_that_run_ahead_are_in_earlier_stages() -> None:
    """As many stages ahead as their channel has slots beyond those in use."""
    made = case(FOLDER / "gemm.sm90.ttgir")
    loads = tuple(Value(node.id, node.id, slots=2) for node in made.graph.nodes if node.kind == "load")
    handed = made._replace(
        problem=replace(made.problem, values=loads), solution=replace(made.solution, interval=10_000)
    )
    marked = handed.marked("pipeline")
    stages = {op.name: op.attributes["loop.stage"] for op in marked.ops}
    assert (stages["tt.descriptor_load"], stages["ttng.warp_group_dot"]) == (0, 2)
    assert marked.op.attributes["tt.scheduled_max_stage"] == 2
