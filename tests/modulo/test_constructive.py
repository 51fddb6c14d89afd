"""Constructed schedules keep every rule or are not taken; what is called simplest is."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.properties.oracle import issues_in_order, search
from tests.properties.tiny import tiny_problem
from twill import pipeline
from twill.engine.partitions import partitions, under
from twill.inputs import Inputs, cases
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo import constructive
from twill.modulo.bounds import bounds
from twill.modulo.constructive import rising, schedules, shifted
from twill.modulo.orders import fewest_registers
from twill.modulo.simplest import proven
from twill.modulo.start import start
from twill.pipeline import solve
from twill.smt import cpsat
from twill.smt.symmetry import families
from twill.verify.check import check

GEMMS = [
    f"examples/ttgir/{name}.{arch}.ttgir"
    for name in ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction")
    for arch in ("sm90", "sm100")
]
LAST = 24
"""Largest interval that the oracle tries."""

ORDERED = cpsat.Tactics(in_order=True)


@pytest.mark.parametrize("joint", [False, True])
def test_the_search_has_the_answer_of_the_oracle(joint: bool) -> None:
    """Of random loops, with and without construction."""
    constructed = 0
    for random in map(Random, range(80)):
        problem = tiny_problem(random, 3)
        interval = bounds(problem, joint=joint).value
        valid = [
            s for s in schedules(problem, interval, 2, joint=joint) if not check(problem, s, joint=joint)
        ]
        constructed += bool(valid)
        result = solve(problem, Options(max_in_flight=2, modulo_only=not joint, explain=False))
        known = search(problem, 2, LAST, joint=joint)
        if known is None:
            assert result.solution is None or result.solution.interval > LAST
            continue
        assert result.solution is not None
        assert (result.status, result.solution.interval) == ("optimal", known.interval)
    assert constructed >= 15


def test_what_is_called_shortest_is() -> None:
    """CP-SAT finds nothing shorter in the same partition, where that is the only one."""
    claimed = 0
    for random in map(Random, range(120)):
        problem = tiny_problem(random, 4)
        interval = bounds(problem).value + random.randint(0, 3)
        for found in schedules(problem, interval, 2):
            goals = proven(problem, found, joint=True, in_order=True)
            if check(problem, found) or not goals.length:
                continue
            own = under(problem, found.group)
            other, sure = cpsat.improve("length", own, found, 2, tactics=ORDERED)
            assert sure
            assert other.length(problem) == found.length(problem)
            claimed += 1
    assert claimed >= 15


def test_both_orders_of_two_operations_are_tried() -> None:
    """Two chains of equal length share a unit: the longest path is 5, one of them waits for the other."""
    unit = (Unit("tc"), Unit("alu"))
    ops = [
        Operation(name, name, (Reservation(where, time),), time)
        for name, where, time in (("a", "alu", 1), ("b", "alu", 1), ("p", "tc", 4), ("q", "tc", 4))
    ]
    problem = Problem("two", "toy", unit, tuple(ops), (Edge("a", "p", 1), Edge("b", "q", 1)))
    result = solve(problem, Options(modulo_only=True))
    assert result.solution is not None
    assert result.solution.length(problem) == 9
    assert result.notes == ()
    longer = replace(result.solution, start=tuple(s + (s > 0) for s in result.solution.start))
    assert proven(problem, result.solution, joint=False, in_order=False).length
    assert not proven(problem, longer, joint=False, in_order=False).length


@pytest.mark.parametrize("spec", GEMMS)
def test_a_gemm_needs_no_solver(spec: str) -> None:
    (case,) = cases(Inputs(spec))
    begin = bounds(case.problem).value
    found = next(iter(schedules(case.problem, begin, 4)))
    assert check(case.problem, found) == ()
    assert proven(case.problem, found, joint=True, in_order=True).all


def test_no_solver_is_imported() -> None:
    code = (
        "import sys, twill\n"
        f"result, = twill.schedule({GEMMS[0]!r})\n"
        "assert (result.status, result.notes) == ('optimal', ())\n"
        "print(sorted({'ortools', 'pandas', 'networkx', 'pysat'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_pinned_starts_are_left_to_the_solvers() -> None:
    problem = tiny_problem(Random(1), 3)
    pinned = replace(problem, starts=((problem.operations[0].id, 0),))
    assert list(schedules(pinned, bounds(pinned).value, 2)) == []


def test_a_first_answer_where_solvers_have_none() -> None:
    """Without time for a solver, attention has an answer and a bound."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir"))
    result = solve(case.problem, Options(time_limit=0.4, explain=False))
    assert result.solution is not None
    assert result.proved <= result.solution.interval
    first = next(s for s in rising(case.problem, 2048, 40000, 4) if not check(case.problem, s))
    assert first.interval <= 2 * 2048
    assert issues_in_order(case.problem, first)


ONE_NODE_EACH = ("ffma", "stream_rmw", "stream_store", "chain", "fused")


@pytest.mark.parametrize(("name", "most"), [("fa_fwd_eight", 1.3), ("fa_bwd_eight", 1.0)])
def test_eight_sub_tiles_are_near_the_bound_by_construction(name: str, most: float) -> None:
    """About 180 operations, more sub-tiles than the machine has groups."""
    spec = f"benchmarks/{name}.sm100.ttgir"
    (case,) = cases(Inputs(spec, switched_off=ONE_NODE_EACH))
    assert len(case.problem.operations) > 170
    low = bounds(case.problem).value
    intervals = rising(case.problem, low, int(most * low), 4)
    assert any(not check(case.problem, found) for found in intervals)


def test_copies_of_one_sub_tile_alternate() -> None:
    """Eight sub-tiles, an eighth of the interval apart; but MMAs are issued as late as they may."""
    spec = "benchmarks/fa_fwd_eight.sm100.ttgir"
    (case,) = cases(Inputs(spec, switched_off=ONE_NODE_EACH))
    problem, low = case.problem, bounds(case.problem).value
    alike = families(problem)
    found = next(one for one in shifted(problem, (low,), 4, alike) if not check(problem, one))
    assert found.interval == low
    wide = {i for i, op in enumerate(problem.operations) if op.warps == 4}
    (family,) = alike
    for i, first in enumerate(family[0]):
        same = [part[i] for part in family]
        if not set(same) <= wide:
            continue
        apart = [found.start[op] - found.start[first] for op in same]
        assert apart == [k * found.interval // 8 for k in range(8)]
    assert not list(shifted(problem, (low,), 4, ()))


def test_sub_tiles_are_dealt_to_the_groups_there_are() -> None:
    """Five chains of two operations: 4, 3 and 2 groups, with neighbours apart."""
    ops = [Operation(f"{k}{i}", k, (Reservation("alu", 1),), 1, 1, 4) for i in range(5) for k in "ab"]
    edges = tuple(Edge(f"a{i}", f"b{i}", 1) for i in range(5))
    problem = Problem("five", "toy", (Unit("alu"),), tuple(ops), edges, limits=Limits(groups=4))
    assert (0, 0, 1, 1, 2, 2, 3, 3, 0, 0) in partitions(problem)
    assert (0, 0, 1, 1, 2, 2, 0, 0, 1, 1) in partitions(problem)
    assert (0, 0, 1, 1, 0, 0, 1, 1, 0, 0) in partitions(problem)


def test_tensor_memory_is_filled_as_late_as_its_reader_allows() -> None:
    """Two MMAs of a narrow group write 256 of 384 columns each; each is read by a slow operation of the other
    group: the second is issued when the first has been read, though its operands are there before."""
    ops = (
        *(Operation(f"mma{i}", "mma", (Reservation("tc", 2),), 10, 1, 1) for i in range(2)),
        *(Operation(f"get{i}", "get", (Reservation("alu", 50),), 50, 50, 4) for i in range(2)),
    )
    edges = tuple(Edge(f"mma{i}", f"get{i}", 10, blocking=True) for i in range(2))
    values = tuple(Value(f"v{i}", f"mma{i}", (Use(f"get{i}", hold=30),), tensor=256) for i in range(2))
    limits = Limits(groups=2, tensor=384)
    problem = Problem("late", "toy", (Unit("tc"), Unit("alu")), ops, edges, values, limits)
    assert any(not check(problem, found) for found in rising(problem, 100, 100, 2))


def test_large_loops_are_bounded_without_a_solver() -> None:
    """A chain of 20,000 operations on one unit, with a circuit through all of them."""
    count = 20_000
    ops = tuple(Operation(f"o{i}", "o", (Reservation("tc", 2),), 3) for i in range(count))
    edges = tuple(Edge(f"o{i}", f"o{(i + 1) % count}", 3, int(i + 1 == count)) for i in range(count))
    problem = Problem("chain", "toy", (Unit("tc"),), ops, edges)
    result = solve(problem, Options(time_limit=1))
    assert (result.status, result.proved) == ("unknown", 3 * count)
    assert result.bounds.recurrence.ops[:2] == ("o0", "o1")
    assert result.notes == (f"{count} operations are too many for a solver",)


def chains(count: int) -> Problem:
    """Chains of a load and five operations on three units, which meet in a sum."""
    ops, edges, values = list[Operation](), list[Edge](), list[Value]()
    for i in range(count):
        names = [f"load{i}", *(f"o{i}.{k}" for k in range(5))]
        ops.append(Operation(names[0], "load", (Reservation("tma", 8),), 0, 2, 1, variable=True))
        ops += [
            Operation(name, unit, (Reservation(unit, 10),), 20, 10, 4)
            for name, unit in zip(names[1:], ("alu", "fma", "sfu", "alu", "fma"), strict=True)
        ]
        edges += [Edge(a, b, 20) for a, b in pairwise(names)]
        values.append(Value(f"tile{i}", names[0], (Use(names[1], hold=20),), shared=64))
        values += [Value(f"v{a}", a, (Use(b),), registers=2) for a, b in pairwise(names[1:])]
    edges += [Edge(f"o{i}.4", f"o{i + 1}.4", 20) for i in range(count - 1)]
    units = tuple(Unit(name) for name in ("tma", "alu", "fma", "sfu"))
    limits = Limits(groups=4, warps=16, narrow_registers=24, shared=1 << 18)
    return Problem("chains", "toy", units, tuple(ops), tuple(edges), tuple(values), limits)


def test_a_last_resort_does_not_depend_on_how_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seconds of its own thread; of the wall clock there is nothing left."""
    monkeypatch.setattr(pipeline, "LEAST", 0.0)
    problem, options = chains(350), Options(time_limit=0.01, explain=False)
    assert solve(problem, options).status == "feasible"
    monkeypatch.setattr(pipeline, "LONGEST", 0.0)
    assert solve(problem, options).status == "unknown"


def test_loops_too_large_for_solvers_have_a_first_answer_with_its_gap() -> None:
    problem = chains(350)
    assert len(problem.operations) == 2100
    result = solve(problem, Options(time_limit=30, explain=False))
    assert result.status == "feasible"
    assert result.solution is not None
    assert result.proved == 7000
    assert 7000 < result.solution.interval <= 16 * 7000
    assert any("constructed without a solver" in note for note in result.notes)
    assert not list(rising(problem, 7000, 112_000, 4, late=lambda: True)), "no time"


def test_operations_are_fused_only_where_registers_run_out() -> None:
    (fused,) = cases(Inputs("tests/kernels/ttgir/faded.sm90.ttgir"))
    (whole,) = cases(Inputs("tests/kernels/ttgir/faded.sm90.ttgir", switched_off=("fused",)))
    assert len(fused.problem.operations) < len(whole.problem.operations)
    assert solve(fused.problem, Options(time_limit=10, explain=False)).solution is not None
    top = start(whole.problem).top  # where one group can issue all
    assert all(check(whole.problem, found) for found in rising(whole.problem, top, top, 4))
    (ample,) = cases(Inputs("tests/kernels/ttgir/deflated.sm90.ttgir"))
    (same,) = cases(Inputs("tests/kernels/ttgir/deflated.sm90.ttgir", switched_off=("fused",)))
    assert ample.problem == same.problem


def test_what_frees_registers_is_issued_first() -> None:
    """A tile of 64 registers is read by an operation that needs 64 more, and then by one that ends it."""
    ops = tuple(
        Operation(name, name, (Reservation("alu", 1),), 1, 1, 4) for name in ("a", "grow", "end", "sum")
    )
    edges = (Edge("a", "grow", 1), Edge("a", "end", 1), Edge("grow", "sum", 1))
    values = (
        Value("x", "a", (Use("grow"), Use("end")), registers=64),
        Value("y", "grow", (Use("sum"),), registers=64),
    )
    limits = Limits(groups=1, registers_per_thread=100, registers_total=1 << 16)
    problem = Problem("tight", "toy", (Unit("alu"),), ops, edges, values, limits)
    assert any(not check(problem, found) for found in rising(problem, 10, 10, 1))


@pytest.mark.parametrize("name", ["faded", "masked", "query_gradient"])
def test_each_step_leaves_the_fewest_registers_live(name: str) -> None:
    """Of all operations whose operands are there, by counting anew what each makes and frees."""
    (case,) = cases(Inputs(f"tests/kernels/ttgir/{name}.sm90.ttgir"))
    problem, done = case.problem, set[str]()
    held = [v for v in problem.values if v.registers and v.uses and not v.resident]
    readers = {v.id: {u.op for u in v.uses if u.distance == max(u.distance for u in v.uses)} for v in held}
    order = [problem.operations[i].id for i in fewest_registers(problem)]
    for chosen in order:
        waiting = {edge.dst for edge in problem.edges if edge.distance == 0 and edge.src not in done}
        costs = {
            op.id: sum(v.registers for v in held if v.src == op.id)
            - sum(v.registers for v in held if readers[v.id] - done == {op.id})
            for op in problem.operations
            if op.id not in done and op.id not in waiting
        }
        assert costs[chosen] == min(costs.values())
        done.add(chosen)
    assert len(done) == len(problem.operations)


def test_a_solver_is_probed_at_the_bound_before_copies_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of loops too large for complete models; and where the probe has an answer, no copies are constructed
    above the bound."""
    ops = [Operation(f"{k}{i}", k, (Reservation("alu", 1),), 1, 1, 4) for i in range(2) for k in "ab"]
    edges = tuple(Edge(f"a{i}", f"b{i}", 1) for i in range(2))
    problem = Problem("two", "toy", (Unit("alu"),), tuple(ops), edges, limits=Limits(groups=2))
    begin, copies, unproven = start(problem, joint=True), Solution(4, (), ()), Options(proofs=False)
    ways: list[list[Solution]] = []

    def first(_problem: Problem, _options: Options, way: Iterable[Solution], *_: object) -> Solution | None:
        ways.append(list(way))
        return min(ways[-1], key=lambda one: one.interval, default=None)

    def above(_problem: Problem, intervals: Sequence[int], *_: object) -> list[Solution]:
        return [Solution(one, (), ()) for one in intervals if one > begin.low]

    def in_order(*_: object, **__: object) -> list[Solution]:
        return [Solution(9, (), ())]

    monkeypatch.setattr(constructive, "rising", in_order)
    monkeypatch.setattr(constructive, "shifted", above)
    monkeypatch.setattr(pipeline, "_first", first)
    for soon, count in ((copies,), 3), ((), 4):
        ways.clear()
        found = pipeline._rough(problem, unproven, begin, lambda _: None, lambda: False, soon=soon)
        assert [begin.low, len(ways)] == [4, count]
        assert found == (copies if soon else Solution(5, (), ()))
