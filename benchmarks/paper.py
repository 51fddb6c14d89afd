"""The findings of section 6 of the Twill paper beside what this program finds for them, as reports/paper.md.

    python benchmarks/paper.py                                # all of it, about ten minutes on two cores
    python benchmarks/paper.py --only "Blackwell forward" --time-limit 5 --out part.md

Every row is one query, with the command that reproduces it; what is said under a table is worked out from the
rows, nothing is known in advance. Questions that the command line has no switch for (one dependence more, a
larger register file) are asked through the Python API. A query that its time limit cuts short says so, and is
not counted for or against a finding.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import Answer, Change, ask, chosen, command, computing, machine, seconds, span, table

import twill
from twill.ir.problem import Edge, Problem, Time
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.whatif import Pins

FA_FORWARD = "examples/ttgir/fa_fwd_subtiled.{}.ttgir"
FA_WHOLE = "examples/ttgir/fa_fwd.{}.ttgir"
FA_BACKWARD = "examples/kernels.py:fa_bwd"
AS_PRINTED = ("ffma", "stream_rmw", "stream_store", "chain")
"""Simplifications that the paper's dependence graphs do not have."""

HEAD = ("query", "I", "proven I >=", "L", "n", "groups", "status", "s")


@dataclass(frozen=True, slots=True)
class Row:
    """An answer and the command that gives it."""

    answer: Answer
    how: str


@dataclass(frozen=True, slots=True)
class Section:
    """One finding: what the paper says, the queries, and what they show."""

    title: str
    paper: str
    rows: tuple[Row, ...]
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks with one time limit for every query."""

    limit: float

    def __call__(
        self,
        question: str,
        inputs: twill.Inputs,
        *,
        modulo: bool = False,
        change: Change | None = None,
        how: str = "",
    ) -> Row:
        print(f"  {question}", file=sys.stderr, flush=True)
        answer = ask(
            question,
            inputs,
            Options(time_limit=self.limit, modulo_only=modulo),
            change or (lambda problem: problem),
        )
        return Row(answer, command(inputs, *(["--modulo-only"] if modulo else [])) + how)


def outcome(answer: Answer, interval: Time | None) -> str:
    """What is known about one interval."""
    if interval is None:
        return "not known, because there is no interval to compare with"
    refuted = answer.refuted(interval)
    if refuted is not None:
        smallest = (
            f"the smallest found is {answer.interval}"
            if answer.interval
            else "none was found above it either"
        )
        return f"**infeasible** at {interval}, refuted after {refuted:.1f} s; {smallest}"
    if answer.interval is not None and answer.interval <= interval:
        return f"**feasible** at {interval}" + (
            f", even at {answer.interval}" if answer.interval < interval else ""
        )
    best = f"the smallest found is {answer.interval}" if answer.interval else "nothing was found"
    few = [
        one.max_in_flight
        for one in answer.result.refuted
        if one.below and one.max_in_flight and one.interval >= interval
    ]
    partly = f" for more than {max(few)} iterations in flight (**infeasible** for as many)" if few else ""
    return f"open at {interval} within the time limit{partly}: {best}, proven at least {answer.result.proved}"


def reasons(answer: Answer) -> tuple[str, ...]:
    """Why the interval is above its lower bound, or there is none, where the search could tell."""
    what = "No interval works" if answer.result.status == "infeasible" else "Above the bound"
    return tuple(f"{what} because of {reason.family}: {reason.text}." for reason in answer.result.reasons)


# --- parts of an attention loop, recognized by what they do -----------------------------------------------


def products(problem: Problem, stem: str) -> tuple[int, ...]:
    """Matrix products whose result is called `stem`, in the order of the sub-tiles."""
    return chosen(problem, lambda op: op.id.startswith(f"dot.{stem}"))


def tile(problem: Problem, first: int) -> frozenset[int]:
    """What is computed from this product within the iteration."""
    found, pending = {first}, [first]
    while pending:
        src = problem.operations[pending.pop()].id
        readers = {problem.index(e.dst) for e in problem.edges if e.src == src and e.distance == 0} - found
        found |= readers
        pending += sorted(readers)
    return frozenset(found)


def exponentials(problem: Problem, within: frozenset[int]) -> tuple[int, ...]:
    """The long exponentials of a sub-tile."""
    longest = max(op.duration for op in problem.operations if op.name == "math.exp2")
    return tuple(
        i
        for i in chosen(problem, lambda op: op.name == "math.exp2" and 2 * op.duration > longest)
        if i in within
    )


def hoisted(answer: Answer) -> list[bool]:
    """Per sub-tile: the scores of the next iteration are begun before the accumulator of this one is
    updated."""
    if answer.solution is None:
        return []
    start, pairs = (
        answer.solution.start,
        zip(products(answer.problem, "scores"), products(answer.problem, "acc"), strict=True),
    )
    return [start[later] >= start[first] + answer.solution.interval for first, later in pairs]


def overlap(answer: Answer) -> list[float]:
    """Per sub-tile: the fraction of its exponential during which the tensor core works for the others."""
    problem, solution = answer.problem, answer.solution
    if solution is None:
        return []
    firsts = products(problem, "scores")
    tiles = [tile(problem, first) for first in firsts]
    all_products = chosen(problem, lambda op: problem.unit(op) == "tensor")
    result: list[float] = []
    for mine in tiles:
        busy = residues(answer, [i for i in all_products if i not in mine])
        own = residues(answer, exponentials(problem, mine))
        result.append(len(own & busy) / max(1, len(own)))
    return result


def residues(answer: Answer, ops: list[int] | tuple[int, ...]) -> set[Time]:
    """When these operations keep a unit, modulo I."""
    found: set[Time] = set()
    if answer.solution:
        for i in ops:
            uses = [use for use in answer.problem.operations[i].reservations if use.unit in ("tensor", "sfu")]
            begin = answer.solution.start[i]
            found |= {
                t % answer.solution.interval
                for use in uses
                for t in range(begin + use.offset, begin + use.offset + use.cycles)
            }
    return found


def in_order(*tiles: int) -> Change:
    """The next iteration of these sub-tiles begins when all of this one has begun: no pipelining across
    iterations."""

    def change(problem: Problem) -> Problem:
        firsts = [products(problem, "scores")[t] for t in tiles]
        name = [op.id for op in problem.operations]
        order = (
            Edge(name[i], name[first], 0, 1, kind="order")
            for first in firsts
            for i in sorted(tile(problem, first) - {first})
        )
        return replace(problem, edges=(*problem.edges, *order))

    return change


def more_registers(problem: Problem) -> Problem:
    """A register file, and a limit for each thread, that nothing reaches."""
    return replace(
        problem, limits=replace(problem.limits, registers_per_thread=2048, registers_total=1 << 22)
    )


def fa4_partition(problem: Problem) -> Pins:
    """Products, softmax of either sub-tile, rescaling of both accumulators: four groups besides the loads."""
    mma = chosen(problem, lambda op: problem.unit(op) == "tensor")
    rescale = chosen(problem, lambda op: op.id.startswith("update.acc"))
    softmax = [sorted(tile(problem, first) - {*mma, *rescale}) for first in products(problem, "scores")]
    return Pins(
        {}, tuple(tuple(problem.operations[i].id for i in ops) for ops in (mma, *softmax, rescale) if ops)
    )


def roles(answer: Answer) -> str:
    """What each group does, loads first."""
    problem, solution = answer.problem, answer.solution
    if solution is None:
        return "-"
    return "; ".join(f"group {group.id} {_words(problem, solution, group.id)}" for group in solution.groups)


def _words(problem: Problem, solution: Solution, group: int) -> str:
    """The parts of an attention loop that a group has."""
    mma = chosen(problem, lambda op: problem.unit(op) == "tensor")
    tiles = [tile(problem, first) - set(mma) for first in products(problem, "scores")]
    rescale = chosen(problem, lambda op: op.id.startswith("update.acc"))
    parts = {"loads": chosen(problem, lambda op: op.variable), "products": mma}
    parts |= {f"softmax {t}": [i for i in sorted(ops) if i not in rescale] for t, ops in enumerate(tiles)}
    parts |= {f"rescaling {t}": [i for i in rescale if i in ops] for t, ops in enumerate(tiles)}
    shares = {name: [solution.group[i] == group for i in ops] for name, ops in parts.items()}
    return (
        ", ".join(f"{'' if all(mine) else 'part of '}{name}" for name, mine in shares.items() if any(mine))
        or "nothing of these"
    )


def wide_groups(answer: Answer) -> int:
    """Groups of a warpgroup or more."""
    return sum(group.warps >= 4 for group in answer.solution.groups) if answer.solution else 0


def yes(value: bool) -> str:
    return "yes" if value else "no"


# --- the findings -----------------------------------------------------------------------------------------


def figure1(asker: Asker) -> Section:
    row = asker("Figure 1, timing alone", twill.Inputs("examples/graphs/figure1.graph.json"), modulo=True)
    answer = row.answer
    starts = (
        ", ".join(
            f"{op.id} at {s}" for op, s in zip(answer.problem.operations, answer.solution.start, strict=True)
        )
        if answer.solution
        else "-"
    )
    return Section(
        "Figure 1",
        "The running example: one product, one exponential, one product; I = 2 with S at 0, P at 2, O at 3.",
        (row,),
        (f"Found: I = {answer.interval} with {starts}.",),
    )


def hopper_forward(asker: Asker) -> Section:
    inputs = twill.Inputs(FA_FORWARD.format("sm90"))
    modulo = asker("timing alone", inputs, modulo=True)
    joint = asker("joint", inputs)
    interval = joint.answer.interval
    edges = "  (and edges that keep the order)"
    rows = [asker(f"sub-tile {t} in order", inputs, change=in_order(t), how=edges) for t in (0, 1)]
    neither = asker("both sub-tiles in order", inputs, change=in_order(0, 1), how=edges)
    one = asker("one group computes", replace(inputs, groups=2))
    idle = replace(inputs, contention=False)
    alone = asker("joint, beside an idle tensor core", idle)
    relaxed = asker(
        "both sub-tiles in order, beside an idle tensor core", idle, change=in_order(0, 1), how=edges
    )
    answer = joint.answer
    tiles = [tile(answer.problem, first) for first in products(answer.problem, "scores")]
    label = answer.solution.group if answer.solution else ()
    apart = bool(label) and not {label[i] for i in tiles[0]} & {label[i] for i in tiles[1]}
    shares = " and ".join(f"{100 * share:.0f}%" for share in overlap(answer)) or "none"
    spans = " and ".join(str(span(answer, ops)) for ops in tiles)
    found = (
        (
            f"The interval is that of the busiest unit ({answer.result.bounds.resource.unit},"
            f" {answer.result.bounds.resource.value}):"
            f" {yes(interval == answer.result.bounds.resource.value)}."
        ),
        (
            "First product of the next iteration hoisted above the second product of this one, by sub-tile:"
            f" {', '.join(yes(h) for h in hoisted(answer))} (joint);"
            f" {', '.join(yes(h) for h in hoisted(modulo.answer))} (timing alone)."
        ),
        (
            f"Ping-pong: the sub-tiles are in groups of their own: {yes(apart)}; while one computes its"
            f" exponentials, the tensor core works for the other during {shares} of the time."
        ),
        (
            "Which sub-tile needs pipelining across iterations: with sub-tile 0 in order,"
            f" {outcome(rows[0].answer, interval)}; with sub-tile 1 in order,"
            f" {outcome(rows[1].answer, interval)}; with both, {outcome(neither.answer, interval)}."
            f" {needed([row.answer for row in rows], neither.answer, interval)}"
        ),
        (
            "Costed with an idle tensor core, with both in order:"
            f" {outcome(relaxed.answer, alone.answer.interval)}. The other costs are those under contention"
            " with a tensor core that works (docs/costs.md)."
        ),
        (
            f"From first start to last end of an iteration the sub-tiles take {spans} cycles; in order means"
            " that the next iteration of a sub-tile begins when all operations of this one have begun."
        ),
        f"One group that computes instead of two: {outcome(one.answer, interval)}.",
    )
    return Section(
        "Hopper forward",
        "Two sub-tiles of 64 rows: I is the tensor core's time; the first product is hoisted into the"
        " prologue; the sub-tiles alternate on two groups (ping-pong); pipelining across iterations is"
        " applied to one of them only, which is enough. 28 s.",
        (modulo, joint, *rows, neither, one, alone, relaxed),
        (*found, *reasons(answer)),
    )


def needed(each: list[Answer], neither: Answer, interval: Time | None) -> str:
    """How many sub-tiles need pipelining across iterations, beside the paper's one; `each` has one sub-tile
    in order, `neither` both."""
    known = [feasible(answer, interval) for answer in each]
    if feasible(neither, interval):
        return "So none needs it, where the paper pipelines one."
    if True in known and feasible(neither, interval) is False:
        return "So one of them needs it, as in the paper."
    if known == [False] * len(known):
        return "So each needs it, where for the paper's costs one is enough."
    return "How many need it is not decided within the time limit."


def feasible(answer: Answer, interval: Time | None) -> bool | None:
    """Whether there is a schedule at this interval; None where that is open."""
    if interval is None:
        return None
    if answer.refuted(interval) is not None:
        return False
    return True if answer.interval is not None and answer.interval <= interval else None


def blackwell_forward(asker: Asker) -> Section:
    inputs, whole = twill.Inputs(FA_FORWARD.format("sm100")), twill.Inputs(FA_WHOLE.format("sm100"))
    modulo = asker("timing alone", inputs, modulo=True)
    joint = asker("joint", inputs)
    interval = joint.answer.interval
    pins = fa4_partition(joint.answer.problem)
    fa4 = asker("loads / products / two softmax / rescaling", replace(inputs, pins=pins), how=" --pin FILE")
    four, three = (asker(f"{n} groups, including the load group", replace(inputs, groups=n)) for n in (4, 3))
    alone = asker("nothing computed passes between groups", replace(inputs, cross_group=False))
    single = asker("no sub-tiling (128 rows), timing alone", whole, modulo=True)
    untiled = asker("no sub-tiling (128 rows)", whole)
    printed = asker(
        "the paper's graph: no contraction, no streaming", replace(inputs, switched_off=AS_PRINTED)
    )
    answer = joint.answer
    tight = modulo.answer.result.proved
    found = (
        f"Timing alone is proven to need {tight}; the joint problem there: {outcome(answer, tight)}.",
        (
            f"The joint answer uses {len(answer.solution.groups) if answer.solution else 0} groups,"
            f" {wide_groups(answer)} of them wide; hoisted first products, by sub-tile:"
            f" {', '.join(yes(h) for h in hoisted(answer))}."
        ),
        f"The paper's (and FA4's) partition at the joint answer's interval: {outcome(fa4.answer, interval)}.",
        f"Four groups: {outcome(four.answer, interval)}. Three groups: {outcome(three.answer, interval)}.",
        f"Who does what: {roles(answer)}. Of four groups at most: {roles(four.answer)}.",
        f"No cross-warp communication (what loads bring excepted): {outcome(alone.answer, interval)}.",
        "No sub-tiling, at its own smallest interval with timing alone:"
        f" {outcome(untiled.answer, single.answer.interval)}" + _per_tile(untiled.answer, interval),
        f"Every operation a node of its own, as in the paper's graph: {outcome(printed.answer, interval)}.",
        *beside_the_paper(
            (
                Variant("four groups", four.answer, tight, interval),
                Variant("three groups", three.answer, tight, interval),
                Variant("no cross-warp communication", alone.answer, tight, interval),
                Variant(
                    "no sub-tiling",
                    untiled.answer,
                    single.answer.interval,
                    interval // 2 if interval else None,
                ),
            )
        ),
    )
    return Section(
        "Blackwell forward",
        "Two sub-tiles of 128 rows: loads, products, two softmax groups and a third group for rescaling, as"
        " in FA4, in 19 s. Infeasible at the smallest interval of the modulo schedule: fewer warps, no"
        " sub-tiling, no cross-warp communication.",
        (modulo, joint, fa4, four, three, alone, single, untiled, printed),
        (*found, *reasons(answer)),
    )


@dataclass(frozen=True, slots=True)
class Variant:
    """What the paper finds infeasible: at its smallest interval with timing alone, and where the joint answer
    is here."""

    name: str
    answer: Answer
    tight: Time | None
    interval: Time | None


def beside_the_paper(variants: Sequence[Variant]) -> Iterator[str]:
    """Where the variants are infeasible here too, where not, and what makes the difference."""
    refuted = [one.name for one in variants if feasible(one.answer, one.tight) is False]
    yield (
        "Infeasible at the smallest interval with timing alone, as in the paper:"
        f" {', '.join(refuted) or 'none of them'}."
    )
    possible = [one.name for one in variants if feasible(one.answer, one.interval)]
    if possible:
        yield (
            f"Where the joint answer is, there are schedules for {' and '.join(possible)} too, unlike in the"
            " paper. This model has room that the printed one has not: it charges a blocking wait for the"
            " time of issue only, lets one group have more registers than another, and streams the rescaling"
            " of an accumulator in chunks (docs/formulation.md, docs/costs.md)."
        )


def _per_tile(untiled: Answer, interval: Time | None) -> str:
    """One sub-tile's worth of work compared with two's."""
    if untiled.interval is None or interval is None:
        return "."
    return (
        f"; for the same work it takes {2 * untiled.interval} cycles instead of {interval}"
        f" ({2 * untiled.interval / interval:.2f} times)."
    )


def hopper_backward(asker: Asker) -> Section:
    inputs = {
        rows: twill.Inputs(FA_BACKWARD, arch="sm90", settings=(("BLOCK_M", str(rows)),)) for rows in (64, 128)
    }
    small = asker("64 x 128 tiles", inputs[64])
    modulo = asker("128 x 128 tiles, timing alone", inputs[128], modulo=True)
    large = asker("128 x 128 tiles", inputs[128])
    roomy = asker(
        "128 x 128 tiles, registers without limit",
        inputs[128],
        change=more_registers,
        how="  (and more registers)",
    )
    answer = large.answer
    found = (
        (
            "128 x 128 tiles at the smallest interval with timing alone:"
            f" {outcome(answer, modulo.answer.interval)}; with registers without limit:"
            f" {outcome(roomy.answer, modulo.answer.interval)}."
        ),
        (
            f"Pipelining across iterations, 128 x 128: {_across(answer)} With registers without limit:"
            f" {_across(roomy.answer)}"
        ),
        f"With 64 x 128 tiles: {_across(small.answer)}",
    )
    return Section(
        "Hopper backward",
        "Registers forbid pipelining across iterations; what remains is overlap within one iteration. 88 s.",
        (small, modulo, large, roomy),
        (*found, *reasons(answer)),
    )


def _across(answer: Answer) -> str:
    """Whether iterations overlap in what computes."""
    if answer.interval is None:
        return (
            "no schedule is possible."
            if answer.result.status == "infeasible"
            else "no schedule was found in the time limit."
        )
    length = span(answer, computing(answer.problem))
    word = "iterations overlap" if length > answer.interval else "iterations do not overlap"
    return (
        f"{word} (all but the loads of one iteration take {length} cycles, a new one starts every"
        f" {answer.interval})."
    )


def blackwell_backward(asker: Asker) -> Section:
    inputs = twill.Inputs("examples/ttgir/fa_bwd.sm100.ttgir")
    modulo = asker("timing alone", inputs, modulo=True)
    joint = asker("joint", inputs)
    fewer = [asker(f"{n} registers per thread", replace(inputs, registers=n)) for n in (168, 128)]
    rows = (joint, *fewer)
    width = max(
        (group.warps for row in rows if row.answer.solution for group in row.answer.solution.groups),
        default=0,
    )
    grown = [
        wide_groups(row.answer) > wide_groups(joint.answer) if row.answer.solution else None for row in fewer
    ]
    known = joint.answer.solution is not None and (
        True in grown or None not in grown
    )  # None where nothing was found
    found = (
        f"Found: {'; '.join(_counted(row.answer) for row in rows)}.",
        (
            "Fewer registers bring a further wide group:"
            f" {yes(True in grown) if known else 'not known within the time limit'}."
        ),
        (
            f"A wide group of this kernel has {width} warps, as the module asks; the paper splits work among"
            " groups of four."
        ),
    )
    return Section(
        "Blackwell backward",
        "Two groups that alternate, in 269 s, which in practice spill registers; with fewer registers per"
        " thread a third group, as in FA4, in 64 s.",
        (modulo, joint, *fewer),
        (*found, *reasons(joint.answer)),
    )


def _counted(answer: Answer) -> str:
    """How many groups there are, and whether fewer would do."""
    if answer.solution is None:
        return f"{answer.question}, no schedule" + (
            "" if answer.result.status == "infeasible" else " within the time limit"
        )
    least = ", not proven to be the least" if any("groups" in note for note in answer.result.notes) else ""
    wide, groups = wide_groups(answer), len(answer.solution.groups)
    return f"{answer.question}, {groups} groups at {answer.interval}, {wide} of them wide{least}"


SECTIONS: tuple[tuple[str, Callable[[Asker], Section]], ...] = (
    ("Figure 1", figure1),
    ("Hopper forward", hopper_forward),
    ("Blackwell forward", blackwell_forward),
    ("Hopper backward", hopper_backward),
    ("Blackwell backward", blackwell_backward),
)


# --- the report -------------------------------------------------------------------------------------------


def cells(row: Row) -> tuple[object, ...]:
    """A row of the table."""
    answer, solution = row.answer, row.answer.solution
    status = answer.result.status
    if solution is None:
        return answer.question, "-", answer.result.proved, "-", "-", "-", status, seconds(answer.seconds)
    groups = len(solution.groups) or "-"
    length, in_flight = solution.length(answer.problem), solution.in_flight(answer.problem)
    return (
        answer.question,
        solution.interval,
        answer.result.proved,
        length,
        in_flight,
        groups,
        status,
        seconds(answer.seconds),
    )


def text(section: Section) -> Iterator[str]:
    """The section as Markdown."""
    yield f"## {section.title}\n"
    yield f"The paper: {section.paper}\n"
    yield table(HEAD, map(cells, section.rows))
    yield from (f"* {line}" for line in section.found)
    yield "\nCommands\n\n```\n" + "\n".join(row.how for row in section.rows) + "\n```\n"


def page(sections: list[Section], limit: float) -> str:
    """The whole report."""
    intro = (
        "Made by `python benchmarks/paper.py`. Each table lists queries with their interval I and length L"
        " in cycles of the machine model (docs/costs.md), the bound that is proven, iterations in flight n,"
        f" warp groups (including the load group) and the seconds that the search took (limit {limit:g} s a"
        " query). The paper's seconds are for normalized costs of at most 300 units a loop, on one core of a"
        " Xeon Platinum 8570; all times here are exact cycles. The paper's measured speeds are no matter of"
        " this page.\n"
    )
    return "\n".join(
        [
            "# The paper's findings, reproduced\n",
            intro,
            machine() + "\n",
            *(line for s in sections for line in text(s)),
        ]
    )


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([name for name, _ in SECTIONS]),
    help="Sections to ask; all of them by default.",
)
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="Seconds for each query.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/paper.md"),
    show_default=True,
)
def main(only: tuple[str, ...], time_limit: float, out: Path) -> None:
    sections: list[Section] = []
    for name, make in SECTIONS:
        if not only or name in only:
            print(name, file=sys.stderr, flush=True)
            sections.append(_asked(name, make, Asker(time_limit)))
            out.write_text(page(sections, time_limit), encoding="utf-8")
    print(out)


def _asked(name: str, make: Callable[[Asker], Section], ask_one: Asker) -> Section:
    """The section; where it fails, one that says how, so that the others are kept."""
    try:
        return make(ask_one)
    except Exception as error:
        return Section(name, "not reproduced", (), (f"Failed: {type(error).__name__}: {error}",))


if __name__ == "__main__":
    main()
