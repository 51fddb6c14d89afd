"""Waits for MMAs: as few as the dependences need, each with the exact number of younger MMAs in flight.

Takes the prologue, steady state and epilogue of one group; gives the same with `MmaWait`s. It runs them
symbolically for small trip counts, with a queue of the MMAs in flight: a statement that needs the result of
one, overwrites what one still reads, or releases its slot, waits for it and so for all older ones; nothing
else waits. What a variable holds is followed too, so that a value overwritten before its last reader is an
error here and not a wrong number later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.diagnostics import DefectError
from twill.ir.effects import SlotPhase, at, effects, registers
from twill.ir.operands import At, OperandLocation, Register, Slot, TensorMemory
from twill.ir.problem import Time
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    LocalLoad,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreTile,
)
from twill.warp.dataflow import Code
from twill.warp.steps import Parts, Step

Location = tuple[str, str, int]
"""("register", variable, age), ("slot", channel, sequence number relative to the loop's first) or ("tensor",
tile, iteration)."""

_INITIAL = (-1, -1)
"""What a register holds, as (value, iteration), while it has the value from before the loop."""


@dataclass(frozen=True, slots=True)
class Key:
    """Before which step of which part."""

    part: int
    position: int


@dataclass(frozen=True, slots=True)
class _Flight:
    """What an MMA reads and writes, and when the schedule has it done."""

    reads: frozenset[Location]
    writes: frozenset[Location]
    began: Time
    """Of the interval in which it was issued."""
    done: Time
    through: Time
    followed: bool = False
    """Another MMA was issued right behind it, when the tensor core was just through with it."""


@dataclass(slots=True)
class _Run:
    """One symbolic execution."""

    code: Code
    touched: frozenset[str]
    """The variables that arithmetic reads or writes in the steady state."""
    settled: bool
    """MMAs on these variables are waited for before the back edge."""
    in_flight: list[_Flight] = field(default_factory=list[_Flight])
    """The MMAs in flight, oldest first."""
    held: dict[Location, tuple[int, int]] = field(default_factory=dict[Location, tuple[int, int]])
    """Value and iteration of what registers hold."""
    needs: dict[Key, int] = field(default_factory=dict[Key, int])
    """How many MMAs may stay in flight before a step."""
    early: set[Key] = field(default_factory=set[Key])
    """Where fewer may than anything depends on."""


def with_waits(
    code: Code, parts: Parts
) -> tuple[tuple[Statement, ...], tuple[Statement, ...], tuple[Statement, ...]]:
    """Prologue, steady state and epilogue with their waits. Raises TwillError where a value is overwritten
    too early."""
    needs, left, firm = dict[Key, int](), False, set[Key]()
    one_by_one = parts.interval == 0 and parts.stages > 1
    for repeats in range(parts.stages + 3):
        run = _execute(code, parts, repeats, settled=not one_by_one)
        left = left or bool(run.in_flight)
        firm |= run.needs.keys() - run.early
        for key, pending in run.needs.items():
            needs[key] = min(pending, needs.get(key, pending))
    waits = {key: MmaWait(pending, _at(parts, key), key not in firm) for key, pending in needs.items()}
    prologue, steady, epilogue = (
        _merged(part, {key.position: wait for key, wait in waits.items() if key.part == index})
        for index, part in enumerate((parts.prologue, parts.steady, parts.epilogue))
    )
    first = _leading(parts.steady, steady)
    crossing_wait = () if first is None else (replace(steady.pop(first), at=At()),)
    for part, waited in ((parts.prologue, prologue), (parts.steady, steady)):
        if crossing_wait and len(part) in waited and waited[len(part)].pending >= crossing_wait[0].pending:
            del waited[len(part)]
    begun = _inserted(parts.prologue, prologue)
    before = (MmaWait(0),) if _initial_beside_mma(begun, _accumulators(parts)) else ()
    return (
        (*before, *begun, *crossing_wait),
        (*_inserted(parts.steady, steady), *crossing_wait),
        (*_inserted(parts.epilogue, epilogue), *([MmaWait(0)] if left else [])),
    )


def straight(code: Code, steps: tuple[Step, ...]) -> tuple[Statement, ...]:
    """One iteration on its own, with its waits; nothing is in flight after it."""
    begun, _, ended = with_waits(code, Parts(steps, (), (), 1))
    return (*begun, *ended)


def crossing(code: Code, parts: Parts) -> bool:
    """Whether MMAs are in flight across the back edge of the steady state."""
    run = _execute(code, replace(parts, epilogue=()), parts.stages + 2, settled=False)
    needs = {key.position: number for key, number in run.needs.items() if key.part == 1}
    first = _leading(parts.steady, needs)
    return bool(run.in_flight) if first is None else needs[first] > 0


def pending(code: Code, parts: Parts) -> Mapping[int, int]:
    """By position in the steady state: how many MMAs may stay in flight there, where it waits."""
    run = _execute(code, parts, 2 * parts.stages + 2, settled=False)
    return {key.position: number for key, number in run.needs.items() if key.part == 1}


def _accumulators(parts: Parts) -> frozenset[str]:
    """The variables that MMAs add to."""
    issues = (step.statement for part in (parts.prologue, parts.steady, parts.epilogue) for step in part)
    accumulators = (one.accumulator for one in issues if isinstance(one, MmaIssue))
    return frozenset(one.variable for one in accumulators if isinstance(one, Register))


def _initial_beside_mma(prologue: Sequence[Statement], accumulators: frozenset[str]) -> bool:
    """Whether arithmetic reads the initial value of an accumulator while an MMA of another one is in flight.
    ptxas takes it for the result of an MMA and injects a wait there (C7517), unless there is one before."""
    issued, in_flight = set[str](), False
    for one in prologue:
        match one:
            case MmaIssue(accumulator=Register(variable=variable)):
                issued.add(variable)
                in_flight = True
            case MmaWait(pending=0):
                in_flight = False
            case Compute() | ProducerStore() | StoreTile() if in_flight:
                read = {r.location.variable for r in one.reads if isinstance(r.location, Register)}
                if read & (accumulators - issued):
                    return True
            case _:
                pass
    return False


def _at(parts: Parts, key: Key) -> At:
    """Of the step that is waited before, or the last one."""
    steps = (parts.prologue, parts.steady, parts.epilogue)[key.part]
    return at(steps[min(key.position, len(steps) - 1)].statement)


def _merged(steps: Sequence[Step], waits: Mapping[int, MmaWait]) -> dict[int, MmaWait]:
    """A wait that only lets slots be released just before a stronger one is left to that, though slots are
    acquired between them."""
    found = dict(waits)
    for position in sorted(found, reverse=True):
        later = position
        while later < len(steps) and isinstance(steps[later].statement, ConsumerRelease | ConsumerWait):
            later += 1
            if later in found and found[later].pending <= found[position].pending:
                found[position] = replace(found[position], pending=found.pop(later).pending)
                break
    return found


def _leading(steps: Sequence[Step], waits: Mapping[int, object]) -> int | None:
    """Where an interval begins with a wait, ordering barriers and waits for slots aside. It is put at the end
    of the interval before, so that no MMA is in flight at the back edge (measured: a tenth of attention's
    time, benchmarks/notebook.md)."""
    first = min(waits, default=None)
    begun = () if first is None else steps[:first]
    return (
        first if all(isinstance(step.statement, OrderBarrierWait | ConsumerWait) for step in begun) else None
    )


def _inserted(steps: Sequence[Step], waits: Mapping[int, MmaWait]) -> tuple[Statement, ...]:
    found = list[Statement]()
    for position, step in enumerate(steps):
        found += [waits[position]] if position in waits else []
        found.append(step.statement)
    return (*found, *([waits[len(steps)]] if len(steps) in waits else []))


def _execute(code: Code, parts: Parts, repeats: int, *, settled: bool = True) -> _Run:
    """All parts, the steady state `repeats` times: N = stages - 1 + repeats iterations."""
    run, total = _Run(code, _arithmetic(parts.steady), settled), parts.stages - 1 + repeats
    began, before = 0, Time()
    for index, part, i in [
        (0, parts.prologue, 0),
        *((1, parts.steady, i) for i in range(parts.stages - 1, total)),
        (2, parts.epilogue, 0),
    ]:
        for position, step in enumerate(part):
            if position == 0 or step.time < before:
                began += parts.interval
            before = step.time
            _step(run, Key(index, position), step, i, total, began)
        if part and index < 2:
            _back_edge(run, Key(index, len(part)), began + parts.interval)
    return run


def _arithmetic(steady: Sequence[Step]) -> frozenset[str]:
    """The variables that arithmetic reads or writes, and those that the loop carries and a store reads: what
    they hold before the first iteration is no MMA's."""
    found = set[str]()
    for step in steady:
        match step.statement:
            case Compute():
                found |= {str(name) for one in _touched(step.statement, 0, 0) for _, name, _ in one}
            case ProducerStore(reads=reads) | StoreTile(reads=reads):
                carried = (
                    read.location
                    for read, (_, back) in zip(reads, step.sources, strict=True)
                    if back is not None and back > step.stage
                )
                found |= {one.variable for one in carried if isinstance(one, Register)}
            case _:
                pass
    return frozenset(found)


def _back_edge(run: _Run, key: Key, now: Time) -> None:
    """Before the back edge, wait for the MMAs whose registers are needed no more, and for those whose results
    arithmetic touches: ptxas serializes every MMA of a loop that has one of them in flight there (C7514)."""
    waited = [
        position
        for position, one in enumerate(run.in_flight)
        if (one.through <= now and _spent(run, one))
        or (run.settled and any(n in run.touched for _, n, _ in one.writes))
    ]
    _await(run, key, [], waited)


def _await(run: _Run, key: Key, needed: Sequence[int], spent: Sequence[int]) -> None:
    """Wait for the MMAs in flight at these positions, and so for all older ones."""
    last = max([*needed, *spent], default=None)
    if last is None:
        return
    run.needs[key] = min(len(run.in_flight) - 1 - last, run.needs.get(key, len(run.in_flight)))
    if last not in needed:
        run.early.add(key)
    del run.in_flight[: last + 1]


def _spent(run: _Run, one: _Flight) -> bool:
    """Whether an MMA in flight reads registers, and nothing else in the loop will wait for it. It is waited
    for when the next MMA is issued, if the schedule has its result by then, or at the back edge, if the
    tensor core is through with it: the compiler keeps registers of MMAs in flight apart from all others, and
    where they do not fit it serializes every MMA (C7512). A wait between two MMAs that the tensor core
    executes one right behind the other would let it run dry: if the second only adds to registers that it
    always has, the wait comes after its issue, before arithmetic needs registers."""
    read = any(kind == "register" for kind, _, _ in one.reads)
    return read and not any(name in run.touched for _, name, _ in one.writes)


def _step(run: _Run, key: Key, step: Step, i: int, total: int, began: Time) -> None:
    """An MMA is issued after the wait for those of earlier intervals that the schedule has done by then and
    that arithmetic of the loop touches: see `pipelined_loops.shifted`."""
    reads, writes = _touched(step.statement, i, total)
    issued = isinstance(step.statement, MmaIssue)
    accumulator, now = writes if issued else frozenset[Location](), began + step.time
    needed = [
        position
        for position, one in enumerate(run.in_flight)
        if (reads - accumulator) & one.writes
        or writes & one.reads
        or (writes - accumulator) & one.writes
        or (issued and one.began < began and one.done <= now and _held_up(run, one, writes))
        or _releases(step.statement, one.reads, i, total)
    ]
    lasting = not any(name in run.touched for _, name, _ in accumulator)
    spent = [
        position
        for position, one in enumerate(run.in_flight)
        if (issued and (one.done if lasting else one.through) <= now and _spent(run, one))
        or (one.followed and isinstance(step.statement, Compute | ProducerStore | StoreTile))
    ]
    _await(run, key, needed, spent)
    _check(run, step, i, total)
    _assign(run, step, i, total)
    if issued:
        run.in_flight = [
            replace(one, followed=one.followed or (one.through <= now and _spent(run, one)))
            for one in run.in_flight
        ]
        run.in_flight.append(_Flight(reads - writes, writes, began, began + step.done, began + step.through))


def _held_up(run: _Run, flight: _Flight, writes: frozenset[Location]) -> bool:
    return not flight.writes & writes and any(name in run.touched for _, name, _ in flight.writes)


def _touched(statement: Statement, i: int, total: int) -> tuple[frozenset[Location], frozenset[Location]]:
    """What a statement reads, and which registers it writes."""
    found = effects(statement)
    return _locations(found.reads, i, total), _locations(registers(found.writes), i, total)


def _locations(locations: Iterable[OperandLocation], i: int, total: int) -> frozenset[Location]:
    return frozenset(_location(one, i, total) for one in locations)


def _location(location: OperandLocation, i: int, total: int) -> Location:
    match location:
        case Register(variable, age):
            return "register", variable, age
        case Slot(channel, _, iteration):
            return "slot", channel, iteration.number(i, total)
        case TensorMemory(tile, iteration):
            return "tensor", tile, iteration.number(i, total)


def _releases(statement: Statement, read: frozenset[Location], i: int, total: int) -> bool:
    """Whether a statement releases a slot that is read."""
    released = (
        one for one in effects(statement).releases if isinstance(one, SlotPhase) and one.state == "empty"
    )
    return any(("slot", one.channel, one.iteration.number(i, total)) in read for one in released)


# --- what registers hold ----------------------------------------------------------------------------------


def _check(run: _Run, step: Step, i: int, total: int) -> None:
    """Every register read holds the instance that is meant: in the first iteration, the initial value of what
    the loop carries."""
    statement = step.statement
    if not isinstance(statement, Compute | MmaIssue | ProducerLoad | ProducerStore | StoreTile):
        return
    own = statement.at.iteration.number(i, total)
    for read, (source, back) in zip(statement.reads, step.sources, strict=True):
        if not isinstance(read.location, Register) or back is None:
            continue
        wanted = own + step.stage - back
        held = run.held.get(("register", read.location.variable, read.location.age))
        meant = (
            held == (source, wanted)
            if wanted >= 0
            else held == _INITIAL or (held is None and read.location.age == 0)
        )
        if not meant and not _partly_issued(statement, held):
            ops = statement.loads[-1].ops if isinstance(statement, ProducerLoad) else statement.ops
            op = run.code.ops[ops[-1]] if ops else None
            name = op.name if op else type(statement).__name__
            problem = f"{read.location.variable} is overwritten before {name} has read it"
            raise run.code.defect(problem, op) if op else DefectError(problem, run.code.function.location)


def _partly_issued(statement: Statement, held: tuple[int, int] | None) -> bool:
    """A later part continues the result of an earlier one."""
    return isinstance(statement, MmaIssue | Compute) and statement.begin > 0 and held is not None


def _assign(run: _Run, step: Step, i: int, total: int) -> None:
    match step.statement:
        case Compute(writes=writes, at=at):
            for write in writes:
                run.held["register", write.register.variable, write.register.age] = (
                    write.value,
                    at.iteration.number(i, total),
                )
        case LocalLoad(value=value, register=register, at=at):
            run.held["register", register.variable, register.age] = value, at.iteration.number(i, total)
        case MmaIssue(ops=ops, accumulator=accumulator, at=at):
            result = run.code.ops[ops[-1]].result.id
            run.held[_location(accumulator, i, total)] = (result, at.iteration.number(i, total))
        case Move(variable=variable, age=age):
            moved = run.held.get(("register", variable, age - 1), _INITIAL if age == 1 else None)
            if moved is not None:
                run.held["register", variable, age] = moved
        case _:
            pass
