"""The cost of one operation on one machine.

Takes a `Work` and a `Machine`; gives a `Charge`: cycles on each unit, latency, issue time, and the formula
that made them. Guarantees: an operation without a cost is an error that names the table to add, at the
operation's line.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from re import search

from twill.diagnostics import TwillError
from twill.ir.graph import Exchange, Kind, Tile, Work
from twill.ir.machine import Cost, Machine
from twill.ir.problem import PARTS
from twill.ops.table import cost_name, lookup, named


@dataclass(frozen=True, slots=True)
class Charge:
    """What an operation takes. All times in cycles."""

    units: Mapping[str, int]
    """By unit, those that only bound a sum included."""
    latency: int
    issue: int
    formula: str
    """How the numbers came about, in words a reader can check."""
    asynchronous: bool = False
    warps: int | None = None
    staging: int = 0
    finishing: int = 0
    """Of the occupancy, what follows the last element that is read."""

    def occupancy(self, machine: Machine) -> int:
        """The longest time on a unit that is taken exclusively."""
        return max(
            (cycles for unit, cycles in self.units.items() if not machine.units[unit].aggregate), default=0
        )


def charge(work: Work, machine: Machine) -> Charge:
    """The cost of one operation. Raises TwillError where the machine has no cost for it."""
    return KINDS[work.kind](work, machine)


def cost_of(op: str, work: Work, machine: Machine) -> Cost:
    """The cost table of an operation: its own, else that of the one it costs as. Raises TwillError, at the
    line of `work`, for none."""
    cost = machine.cost(op) or machine.cost(cost_name(op))
    if cost is None:
        raise TwillError(
            f"no cost for {op} on machine {machine.name!r}",
            work.location,
            span=len(op),
            help=(
                f'add "{op}" to the `ops` of a table in {machine.file or "the machine file"}, or a table'
                f' [costs.NAME] with ops = ["{op}"]'
            ),
        )
    return cost


def rate_of(cost: Cost, unit: str, dtype: str, work: Work, machine: Machine) -> float:
    """Things per cycle of `unit` for elements of `dtype`."""
    rate = cost.rate[unit]
    if not isinstance(rate, Mapping):
        return rate
    family = "f8" if dtype.startswith("f8") else dtype
    found = rate.get(family, rate.get("default"))
    if found is None:
        table = next(name for name, c in machine.costs.items() if c is cost)
        raise TwillError(
            f"no rate of {work.op} for {dtype} on machine {machine.name!r}",
            work.location,
            span=len(work.op),
            help=f"add {family} to `rate.{unit}` of [costs.{table}] in {machine.file or 'the machine file'}",
        )
    return found


# --- kinds ------------------------------------------------------------------------------------------------


def counted(work: Work, machine: Machine, count: int, dtype: str, what: str) -> Charge:
    """The common formula: `count` things at the rate of each unit, plus latency. What passes through less
    staging than it needs holds the warp until the rest of it is gone."""
    cost = cost_of(work.op, work, machine)
    rates = {unit: rate_of(cost, unit, dtype, work, machine) for unit in cost.rate}
    units = {unit: ceil(count / rate) for unit, rate in rates.items()}
    busy = max(units.values(), default=0)
    slow = ceil(count / cost.latency_rate) if cost.latency_rate else 0
    held = ceil(count / cost.issue_rate) if cost.issue_rate else 0
    held = (
        max(held, ceil(busy * (1 - cost.staging / count)))
        if cost.asynchronous and 0 < cost.staging < count
        else held
    )
    queued = max(0, busy - cost.queue * work.warps // 4) if cost.queue is not None else 0
    terms = [f"{unit} {count}/{rate:g}" for unit, rate in rates.items()]
    tail = f"max({count}/{cost.latency_rate:g}, occupancy)" if cost.latency_rate else "occupancy"
    launch = f"; holds the warp {max(cost.issue + held, queued)}" if cost.asynchronous else ""
    formula = f"{count} {what}: {', '.join(terms) or 'free'}; latency {tail} + {cost.latency}{launch}"
    return Charge(
        issued(units, count * cost.instructions / LANES, machine),
        latency=max(busy, slow) + cost.latency,
        issue=max(cost.issue + held, queued) if cost.asynchronous else busy,
        formula=formula,
        asynchronous=cost.asynchronous,
        warps=cost.warps,
        staging=cost.staging,
    )


def issued(units: Mapping[str, int], instructions: float, machine: Machine) -> dict[str, int]:
    """`units` with the issue slots of so many warp instructions."""
    if machine.issue is None or not instructions:
        return dict(units)
    return {**units, machine.issue.unit: ceil(instructions / machine.issue.slots)}


def elementwise(work: Work, machine: Machine) -> Charge:
    """Every element that any thread holds; operands that lie in shared memory are read from there on the
    way."""
    tile = work.tile
    count = tile.held if tile else 1
    others = count * work.polynomial // PARTS
    made = counted(work, machine, count - others, _widest(work), "elements held")
    made = _beside(made, _by_polynomial(work, machine, others), machine) if others else made
    return with_shared(made, sum(t.bytes for t in work.inputs if t.place == "shared"), "read", machine)


def _by_polynomial(work: Work, machine: Machine, count: int) -> Charge:
    found = lookup(work.op)
    assert found is not None
    assert found.polynomial is not None
    name = found.polynomial.cost
    return counted(replace(work, op=name), machine, count, _widest(work), "elements by polynomial")


def _beside(one: Charge, other: Charge, machine: Machine) -> Charge:
    """Two parts of an operation whose instructions alternate: the units work at the same time."""
    made = replace(one, units=added(one.units, other.units), formula=f"{one.formula} | {other.formula}")
    busy, behind = made.occupancy(machine), max(part.latency - part.issue for part in (one, other))
    return replace(made, latency=busy + behind, issue=busy)


def with_shared(made: Charge, size: int, verb: str, machine: Machine) -> Charge:
    """`made` plus `size` bytes through shared memory."""
    shared = machine.shared
    if shared is None or not size:
        return made
    cycles = ceil(size / shared.bytes_per_cycle)
    units = {**made.units, shared.unit: made.units.get(shared.unit, 0) + cycles}
    return replace(
        made, units=units, formula=f"{made.formula}; {shared.unit} {verb} {size}/{shared.bytes_per_cycle:g}"
    )


def reduction(work: Work, machine: Machine) -> Charge:
    """Combine the elements held by each thread, then pass partial results between lanes, and between warps
    where rows span them: a thread combines what each exchange brings, and what every warp left."""
    tile, spread, ends = work.inputs[0], work.exchange or UNKNOWN, work.outputs[0].held
    steps = [(op, tile.held) for op in work.combine]
    made = _along_rows(work, machine, steps, spread.lanes, ends)
    passed = ends * (spread.lanes + (2**spread.warps if spread.warps else 0))
    behind = [counted(replace(work, op=op), machine, passed, _widest(work), "") for op in work.combine]
    finishing = sum(one.occupancy(machine) for one in behind)
    units = added(made.units, *(one.units for one in behind))
    formula = f"{made.formula}; {passed} more combined" if passed else made.formula
    return replace(made, units=units, finishing=finishing, formula=formula)


def scan(work: Work, machine: Machine) -> Charge:
    """Combine the elements held by each thread, pass the results from lane to lane, and combine what comes
    before a thread's elements to all but the last; a lane keeps only what is of lanes before it. Between
    warps once more, for every element."""
    tile, spread = work.inputs[0], work.exchange or UNKNOWN
    ends = tile.held // spread.serial
    within, exchanges = tile.held - ends, spread.lanes + 1 if spread.lanes else 0
    kept = within + spread.lanes * ends if spread.lanes else 0
    combined = within + kept + (tile.held if spread.warps else 0)
    return _along_rows(
        work, machine, [*((op, combined) for op in work.combine), (named("select"), kept)], exchanges, ends
    )


def _along_rows(
    work: Work, machine: Machine, steps: Sequence[tuple[str, int]], exchanges: int, ends: int
) -> Charge:
    """So many of each step, and exchanges of `ends` elements between lanes. One row's elements are combined
    one after the other, which delays the result but leaves the units to other rows and groups."""
    steps, spread = [(op, count) for op, count in steps if count], work.exchange or UNKNOWN
    combines = [
        counted(replace(work, op=op), machine, count, _widest(work), "elements held") for op, count in steps
    ]
    passed = counted(work, machine, exchanges * ends, work.inputs[0].dtype, "elements passed between lanes")
    cost = cost_of(work.op, work, machine)
    across = machine.handover.barrier if spread.warps else 0
    busy = sum(one.issue for one in combines)
    serial = ceil(spread.serial * cost.step)
    terms = [f"{op}: {one.formula}" for (op, _), one in zip(steps, combines, strict=True)]
    terms += (
        [f"{exchanges} exchanges between lanes of {cost.latency}, {exchanges * ends} elements"]
        if exchanges
        else []
    )
    terms += [f"{spread.serial} a thread and row, {cost.step:g} apart"] if serial > busy else []
    terms += [f"{across} for a barrier between warps"] if across else []
    return Charge(
        added(*(one.units for one in combines), passed.units),
        latency=max(busy, serial) + max(passed.issue, exchanges * cost.latency) + across,
        issue=busy + passed.issue + across,
        formula="; ".join(terms),
    )


UNKNOWN = Exchange(serial=1, lanes=5, warps=1)
"""A reduction over a layout that is not known: assumed to run through every lane and over warps."""


def added(*tables: Mapping[str, int]) -> dict[str, int]:
    """Cycles by unit, summed."""
    total: dict[str, int] = {}
    for table in tables:
        for unit, cycles in table.items():
            total[unit] = total.get(unit, 0) + cycles
    return total


def mma(work: Work, machine: Machine) -> Charge:
    """M N K multiply-adds at the rate of the wider operand, M rounded up to the rows of the instruction;
    operands in shared memory are read once per pass over them."""
    cost = cost_of(work.op, work, machine)
    m, n, k = work.mnk or (1, 1, 1)
    rounded = -(-m // cost.rows) * cost.rows
    a, b = work.inputs[:2]
    made = counted(
        work,
        machine,
        rounded * n * k,
        max(a.dtype, b.dtype, key=_width),
        f"multiply-adds ({rounded}x{n}x{k})",
    )
    read = _operand(a, n, cost.a_columns) + _operand(b, m, cost.b_rows) + work.read
    return with_shared(made, read, "operands", machine)


def _width(dtype: str) -> int:
    """Bits of a number of this type, wherever it lies."""
    found = search(r"\d+", dtype)
    return int(found[0]) if found else 0


def _operand(tile: Tile, extent: int, step: int) -> int:
    """Bytes read of an operand in shared memory that is read again for every `step` of the other one's
    `extent`."""
    return tile.bytes * -(-extent // step) if tile.place == "shared" and step else 0


def moved(work: Work, machine: Machine) -> Charge:
    """Bytes of the largest tile moved."""
    tile = max((*work.outputs, *work.inputs), key=lambda t: t.bytes if t.dtype != "ptr" else 0)
    made = counted(work, machine, tile.bytes, tile.dtype, "bytes")
    return _by_access(made, work, machine, tile.bytes) if work.bounds or work.access else made


def _by_access(made: Charge, work: Work, machine: Machine, size: int) -> Charge:
    """`made` plus the instructions of accesses that are narrower than they could be, and the comparisons with
    bounds of each, on machines that count the instructions of an address too."""
    accesses = -(-size // (work.access or ACCESS))
    comparing = replace(work, op=named("compare"))
    compared = counted(comparing, machine, work.bounds * accesses, "i32", "comparisons")
    if not set(compared.units) <= set(made.units):
        return made
    more = (accesses * ACCESS - size) * cost_of(work.op, work, machine).instructions
    narrow = issued({}, more / LANES, machine)
    formula = f"{made.formula} | {compared.formula}" if work.bounds else made.formula
    formula += f" | {accesses} accesses of {work.access} bytes" if more else ""
    return replace(made, units=added(made.units, compared.units, narrow), formula=formula)


def tensor(work: Work, machine: Machine) -> Charge:
    """32-bit words of the tile in tensor memory."""
    tile = next(t for t in (*work.outputs, *work.inputs) if t.place == "tensor")
    return counted(work, machine, -(-tile.elements * tile.bits // 32), tile.dtype, "words")


def atomic(work: Work, machine: Machine) -> Charge:
    tile = max(work.inputs, key=lambda t: t.elements)
    return counted(work, machine, tile.elements, tile.dtype, "elements")


def unscheduled(work: Work, machine: Machine) -> Charge:
    """Views and scalar code take nothing."""
    return Charge({}, 0, 0, "nothing")


LANES = 32
"""Of a warp."""
ACCESS = 16
"""Bytes that a thread stores at once, at most (PTX ISA, st.v4.b32)."""
KINDS: Mapping[Kind, Callable[[Work, Machine], Charge]] = {
    "load": moved,
    "store": moved,
    "atomic": atomic,
    "mma": mma,
    "elementwise": elementwise,
    "reduce": reduction,
    "scan": scan,
    "convert": moved,
    "shared_store": moved,
    "shared_load": moved,
    "tensor_store": tensor,
    "tensor_load": tensor,
    "view": unscheduled,
    "scalar": unscheduled,
}


def _widest(work: Work) -> str:
    """The element type that decides the rate: the widest operand's."""
    tiles = [t for t in work.inputs if t.shape] or list(work.inputs) or list(work.outputs)
    return max(tiles, key=lambda t: t.bits).dtype if tiles else "f32"


# --- several at once --------------------------------------------------------------------------------------


def streamed(works: tuple[Work, ...], machine: Machine) -> Charge:
    """Operations that follow each other in chunks: all of the slowest one, and one chunk of each other."""
    charges = _in_order(works, machine)
    slowest = max(c.latency for c in charges)
    share = _chunk_share(works, machine)
    fill = ceil((sum(c.latency for c in charges) - slowest) * share)
    waits = any(c.asynchronous for c in charges[:-1])
    return Charge(
        added(*(c.units for c in charges)),
        latency=slowest + fill,
        issue=slowest + fill if waits else max(c.issue for c in charges),
        formula=(
            f"streamed in chunks: {' | '.join(c.formula for c in charges)}; latency {slowest} + {fill} to"
            " fill"
        ),
        asynchronous=charges[-1].asynchronous and not waits,
    )


def _in_order(works: tuple[Work, ...], machine: Machine) -> list[Charge]:
    """Of works that follow each other; those that wait for nothing of the one before are one with it."""
    charges = list[Charge]()
    for work in works:
        one = charge(work, machine)
        charges.append(_beside(charges.pop(), one, machine) if charges and work.beside else one)
    return charges


def _chunk_share(works: tuple[Work, ...], machine: Machine) -> float:
    """What part of the tile one chunk is."""
    registers = max(
        (t.registers for w in works for t in (*w.inputs, *w.outputs) if t.place == "registers"), default=0
    )
    return min(1.0, machine.stream.chunk_registers / registers) if registers else 1.0


def branch(then: tuple[Work, ...], otherwise: tuple[Work, ...], machine: Machine) -> Charge:
    """The costlier of two branches, its operations one after the other."""
    return max((serial(then, machine), serial(otherwise, machine)), key=lambda c: c.latency)


def serial(works: Iterable[Work], machine: Machine) -> Charge:
    charges = [charge(work, machine) for work in works]
    return Charge(
        added(*(c.units for c in charges)),
        latency=sum(c.latency for c in charges),
        issue=sum(c.latency if c.asynchronous else c.issue for c in charges),
        formula=" + ".join(c.formula for c in charges) or "nothing",
    )
