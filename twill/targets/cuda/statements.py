"""One recipe for each kind of statement of a warp program.

Takes the `Emitter` of a group and statements; gives lines of C++. Every statement begins with a comment: its
cycle, its stage and the TTGIR line of its operation.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import assert_never

from twill.ir.effects import at, drained_after, effects
from twill.ir.loop import Op, Scalar, Value
from twill.ir.operands import Read
from twill.ir.statements import (
    Advance,
    Alternate,
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    LocalLoad,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    Statement,
    StoreTile,
    StoreWait,
    TensorMemorySync,
    While,
    by_threads,
    inner,
)
from twill.ops.c import c_type
from twill.targets.cuda.emitter import (
    CLAIMED,
    PAIR_RANK,
    STORES_READ,
    Emitter,
    claims_by,
    indented,
    issues,
    readers_of_claims,
    trips,
)
from twill.targets.cuda.expressions import atom, literal, plus, times
from twill.targets.cuda.global_stores.tile_stores import store_tile
from twill.targets.cuda.loads.early_reads import begun_early
from twill.targets.cuda.loads.kept_addresses import kept_in_loop
from twill.targets.cuda.loads.loads_first import Before, before_loop
from twill.targets.cuda.loads.next_loads import begun, ended, is_number, needed_for
from twill.targets.cuda.loads.producers import (
    first_loads,
    for_a_slot,
    numbers_ahead,
    numbers_carried,
    producer_load,
    producer_store,
)
from twill.targets.cuda.loops.awaited_reads import together
from twill.targets.cuda.loops.barriers import (
    barrier_arrive,
    barrier_wait,
    consumer_release,
    consumer_wait,
    fenced_later,
    tensor_memory_sync,
)
from twill.targets.cuda.loops.exchanged_tiles import iterations
from twill.targets.cuda.loops.late_exchanges import late_exchanges
from twill.targets.cuda.loops.positions import NOTHING_KEPT, kept
from twill.targets.cuda.loops.unrolled_loops import gathers_loads, unrolled
from twill.targets.cuda.mmas.ended_accumulators import zeros_save_registers
from twill.targets.cuda.names import c_name, count
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import variable
from twill.targets.cuda.registers.register_statements import (
    compute,
    computed,
    finalize,
    initialize_carried,
    local_load,
    move,
)
from twill.targets.cuda.shared.reused_memory import freed
from twill.warp.branch_accumulators import in_place
from twill.warp.skipped import Skipped, runs, skipped

_UNCONDITIONAL = (
    *(Compute, FinalizeReduction, InitializeCarried, Move, SchedulingFence, MmaIssue, MmaWait),
    *(ConsumerWait, ConsumerRelease, Advance, OrderBarrierWait, OrderBarrierArrive),
)
"""What is printed where it stands, under no condition, and has no buffer in shared memory but the scratch
buffer (`ScratchHalves`)."""
TAKEN = "twill_taken"
"""The variable that says whether an iteration takes the branch that all MMAs are in."""
REMATERIALIZED = ("thread.lane", "thread.index", "thread.row", "thread.column")
"""What `ThreadCoordinates::rematerialize` of the runtime computes. A loop that uses none of it omits the
call: computing the lane again delays every arrival."""
OF_WARPS = "warp_mma"
"""Begins the names of the runtime's functions that execute MMAs of warps."""


def printed(emitter: Emitter, statements: Sequence[Statement]) -> list[str]:
    """The lines of statements in order, which may be a branch or the body of a loop. Raises TwillError for
    what can not be generated."""
    emitter.halves.forget()
    lines = _in_order(emitter, statements)
    emitter.halves.forget()
    return lines


def _in_order(emitter: Emitter, statements: Sequence[Statement]) -> list[str]:
    if not any(isinstance(one, Pipelined) for one in statements):
        return _awaiting_together(emitter, statements)
    lines, index = list[str](), 0
    while index < len(statements):
        before = before_loop(emitter.program, statements[index:])
        index += len(before)
        one = statements[index]
        lines += _behind_loads(emitter, before, one) if isinstance(one, Pipelined) else _one(emitter, one)
        index += 1
    return lines


def _awaiting_together(emitter: Emitter, statements: Sequence[Statement]) -> list[str]:
    """Statements none of which is a pipelined loop; those that read one slot await their reads together."""
    lines = list[str]()
    shared = together(statements, emitter.awaits)
    words = {one: one.word(emitter.gathers + number) for number, one in enumerate(shared)}
    emitter.gathers += len(words)
    late, reading = late_exchanges(emitter, statements), dict[int, list[str]]()
    for position, statement in enumerate(statements):
        own = {one: word for one, word in words.items() if position in one.statements}
        lines += [f"uint32_t {word} = 0;" for one, word in own.items() if position == one.statements[0]]
        emitter.gathered = {one.slot: word for one, word in own.items()}
        emitter.fenced_later = fenced_later(emitter, statements[position:])
        emitter.read_late = reading.setdefault(late[position], []) if position in late else None
        lines += [*reading.pop(position, ()), *_one(emitter, statement)]
        lines += [f"await_reads({word});" for one, word in own.items() if position == one.statements[-1]]
    emitter.gathered, emitter.fenced_later, emitter.read_late = {}, False, None
    return lines


def _one(emitter: Emitter, statement: Statement) -> list[str]:
    if not isinstance(statement, _UNCONDITIONAL) or (isinstance(statement, Compute) and statement.slots):
        emitter.halves.forget()
        lines = _statement(emitter, statement)
        emitter.halves.forget()
        return lines
    return _statement(emitter, statement)


def _statement(emitter: Emitter, statement: Statement) -> list[str]:
    match statement:
        case Compute():
            own = [*compute(emitter, statement), *emitter.following(statement)]
            return for_a_slot(emitter, statement, own)
        case InitializeCarried():
            return initialize_carried(emitter, statement)
        case LocalLoad():
            return local_load(emitter, statement)
        case Move():
            return move(emitter, statement)
        case FinalizeReduction():
            return finalize(emitter, statement)
        case SchedulingFence(registers):
            return [f"scheduling_fence(opaque, {', '.join(map(variable, registers))});"]
        case MmaIssue():
            return emitter.mma.issue(emitter, statement)
        case MmaWait(pending):
            return emitter.mma.wait(pending)
        case ProducerLoad():
            return [*_before(emitter, statement), *producer_load(emitter, statement)]
        case ProducerStore():
            return [*_before(emitter, statement), *producer_store(emitter, statement)]
        case ConsumerWait(channel, at):
            return consumer_wait(emitter, channel, at)
        case ConsumerRelease(channel, at):
            return consumer_release(emitter, channel, at)
        case Advance(channel, loop):
            return [f"{count(channel)} += {'1' if loop is None else trips(emitter.program, loop)};"]
        case OrderBarrierWait(order):
            return [f"named_barrier_sync({order}, {emitter.threads(order)});"]
        case OrderBarrierArrive(order):
            return [f"named_barrier_arrive({order}, {emitter.threads(order)});"]
        case BarrierArrive(barrier, at):
            return barrier_arrive(emitter, barrier, at)
        case BarrierWait():
            return barrier_wait(emitter, statement)
        case TensorMemorySync():
            return tensor_memory_sync(emitter)
        case StoreTile():
            return store_tile(emitter, statement)
        case StoreWait():
            return [STORES_READ, emitter.scope().group_barrier()]
        case Pipelined() | For() | While() | If() | Alternate():
            return _structure(emitter, statement)
        case _:
            assert_never(statement)


def _before(emitter: Emitter, it: ProducerLoad | ProducerStore) -> list[str]:
    """What stands before a fill outside of loops (`_pipelined` has that of a loop)."""
    return freed(emitter, it) if it.at.cycle is None else []


def _behind_loads(emitter: Emitter, before: Sequence[Before], loop: Pipelined) -> list[str]:
    """A loop whose first loads come between the numbers and the tiles of what stands before it. Blocks of the
    numbers hold the loop: what several statements compute each for itself has one name."""
    numbers, tiles = list[list[str]](), list[str]()
    for one in before:
        emitter.halves.forget()
        if isinstance(one.statement, Compute):
            head, first, rest = computed(emitter, one.statement, one.numbers)
            numbers.append([head, "{", *indented(first)])
            tiles += [head, "{", *indented(rest), "}"] if rest else []
        else:
            tiles += _one(emitter, one.statement)
    lines = _pipelined(emitter, loop, tiles)
    for opened in reversed(numbers):
        lines = [*opened, *indented(lines), "}"]
    return lines


def _structure(emitter: Emitter, statement: Pipelined | For | While | If | Alternate) -> list[str]:
    match statement:
        case Pipelined():
            return _pipelined(emitter, statement)
        case For(op, body, bounds):
            return _for(emitter, emitter.program.op(op), body, bounds)
        case While(op, before, condition, body):
            return _while(emitter, emitter.program.op(op), before, condition, body)
        case If(op, condition, then, otherwise):
            return _if(emitter, emitter.program.op(op), condition, then, otherwise)
        case Alternate():
            return _alternate(emitter, statement)


def _bounds(emitter: Emitter, op: Op, reads: Sequence[Read]) -> tuple[str, str, str]:
    scope = emitter.scope(reads)
    lower, upper, step = (scope.scalar(value) for value in op.operands[:3])
    return lower, upper, step


def _pipelined(emitter: Emitter, it: Pipelined, waiting: Sequence[str] = ()) -> list[str]:
    """`waiting`: what comes behind the first loads."""
    emitter.halves.forget()
    op = emitter.program.op(it.op)
    lower, upper, step = _bounds(emitter, op, it.bounds)
    emitter.inductions = {
        **(emitter.inductions or {}),
        op.regions[0].blocks[0].args[0].id: lambda i: atom(plus(lower, times(i, step))),
    }
    emitter.least, name = it.stages - 1, trips(emitter.program, it.op)
    none = "int64_t(0)" if op.operands[0].type in (Scalar("i64"), Scalar("index")) else "0"
    counted = f"{name} = max({none}, {_span(lower, upper, step)});"
    if not any(inner(it)) and not it.zeroed:
        return [*waiting, counted]
    lines = [
        f"// {it.path}: {it.stages} stages, an iteration every {it.interval} cycles",
        f"const int32_t n = {name};",
    ]
    early = zeros_save_registers(emitter.program, emitter.group, it)
    zeroed = [one for one in it.zeroed if not (early and isinstance(one, InitializeCarried))]
    lines += printed(emitter, [one for one in it.zeroed if one not in zeroed])
    lines += kept_in_loop(emitter, it)
    lines += [*freed(emitter, it), *begun(emitter, it)]
    lines += [*first_loads(emitter, it, lambda one: compute(emitter, one)), *waiting]
    started = [] if emitter.group.multistage else begun_early(emitter, it)
    prologue, carried = printed(emitter, it.prologue), numbers_carried(emitter, it)
    head, body = _steady(emitter, it)
    whole = [*carried, *started, *prologue, *head]
    whole += iterations(emitter, it, body, printed(emitter, it.epilogue))
    emitter.mma.restart()
    least, emitter.least = emitter.least, 0
    short = _predicated(emitter, it) if it.predicated else printed(emitter, it.short)
    lines += [f"if (n >= {least}) {{", *indented(whole)] if least else whole
    count = f"n + {drained_after(it)}" if it.predicated else "n"
    if short:  # rows of tensor memory have many columns in a thread: their indices are not kept
        short = [*(_rematerialized(emitter, short) if emitter.program.tensor_memory else []), *short]
        loop = [f"for (int32_t i = 0; i < {count}; ++i) {{", *indented(short), "}"]
        lines += ["} else {", *indented(loop)]
    lines += ["}"] if least else []
    ended(emitter)
    if zeroed:
        lines += ["if (n == 0) {", *indented(printed(emitter, zeroed)), "}"]
    return [counted, "{", *indented(lines), "}"]


def _steady(emitter: Emitter, it: Pipelined) -> tuple[list[str], list[str]]:
    """The body of the loop that runs the steady state, where this group has any, and what stands before the
    loop."""
    emitter.positions = kept(emitter.program, it.steady, emitter.least)
    printed(emitter, it.steady)  # then what is in flight is that at the back edge, not at the entry
    emitter.in_loop = True
    numbers = numbers_ahead(emitter, it.steady)
    early = begun_early(emitter, it) if emitter.group.multistage else []
    steady = _where_taken(emitter, it)
    emitter.in_loop, emitter.ahead, emitter.early, emitter.carried = False, set[str](), {}, {}
    body = [*_rematerialized(emitter, steady), *numbers, *steady, *emitter.positions.advance()]
    head = [*emitter.positions.start(emitter.least), *early]
    emitter.positions = NOTHING_KEPT
    return (head, body) if steady else ([], [])


def _where_taken(emitter: Emitter, it: Pipelined) -> list[str]:
    """The steady state, with what only a branch needs under its condition (`warp.skipped`)."""
    if (found := skipped(emitter.program, it)) is None:
        return printed(emitter, it.steady)
    lines = _known_before(emitter, it, found)
    if found.branch.local:  # what keeps their slots from iteration to iteration may be left out
        lines += [f"if ({TAKEN}) {{", *indented([emitter.scope().group_barrier()]), "}"]
    for needless, run in runs(found, in_place(emitter.program, found, it.steady[found.place :])):
        own = printed(emitter, run)
        lines += [f"if ({TAKEN}) {{", *indented(own), "}"] if needless else own
    return lines


def _known_before(emitter: Emitter, it: Pipelined, found: Skipped) -> list[str]:
    """What stands before the branch, and whether the iteration takes it. The numbers in memory that decide
    are loaded as early as their addresses are known: before the group waits for slots."""
    before, reads = it.steady[: found.place], {one.location for one in found.by.reads}
    places = (place for place, one in enumerate(before, 1) if reads & set(effects(one).writes))
    begin = max(places, default=0)
    numbers = [op.result for op in found.needed if is_number(op)]
    names = {value.id: f"{TAKEN}_{number}" for number, value in enumerate(numbers)}
    early = needed_for(numbers, {op.index: op for op in found.needed})
    lines = printed(emitter, before[:begin])
    lines += _deciding(emitter, found, early, {}, tuple(zip(numbers, names.values(), strict=True)))
    lines += printed(emitter, before[begin:])
    rest = [op for op in found.needed if not any(value.id in names for value in op.results)]
    return [*lines, *_deciding(emitter, found, rest, names, [(found.condition, TAKEN)])]


def _deciding(
    emitter: Emitter,
    found: Skipped,
    ops: Iterable[Op],
    known: Mapping[int, str],
    kept: Sequence[tuple[Value, str]],
) -> list[str]:
    """Some of the operations by which an iteration is taken, in a block of their own, and before it the
    variables that keep values; `known` are variables by value id."""
    if not kept:
        return []
    scope = emitter.scope(found.by.reads, (), found.by.at, ops=[op.index for op in found.needed])
    scope.values |= known
    for op in ops:
        execute(scope, op)
    own = [f"{name} = {scope.scalar(value)};" for value, name in kept]
    declared = [f"{c_type(value.type)} {name};" for value, name in kept]
    return [*declared, "{", *indented([*scope.lines, *own]), "}"]


def _rematerialized(emitter: Emitter, body: Sequence[str]) -> list[str]:
    """At the beginning of a loop's body: the thread's coordinates, where it uses them. A loop that keeps
    positions does little else than issue MMAs, and keeps addresses too; one whose accumulators are in tensor
    memory has registers for addresses, and so have a group that only moves data and the only one, in a loop
    whose MMAs are those of warps, all or some, unless ptxas spills (`Program.lean`): each warp reads operands
    at addresses of its own, and a thread keeps the products of its rows and strides, for instance. (A product
    of fp8 with scales in tiles of 16 x 64 x 128: 207 instructions an iteration for 228; a delta rule of 18
    MMAs of warps and two of a warpgroup in chunks of 16: 418 for 515, 113 registers for 92.)"""
    if emitter.positions.names or (emitter.program.tensor_memory and not emitter.program.lean):
        return []
    of_warps = not issues(emitter.group) or any(OF_WARPS in line for line in body)
    alone = len(emitter.program.groups) == 1 and of_warps
    roomy = emitter.group.only_moves or alone
    wide = emitter.group.warps >= 4 and (emitter.program.lean or not roomy)
    used = any(member in line for line in body for member in REMATERIALIZED)
    return ["thread.rematerialize();"] if wide and used else []


def _predicated(emitter: Emitter, it: Pipelined) -> list[str]:
    """The steady state, each statement only for iterations that there are."""
    emitter.predicated, lines = True, list[str]()
    for condition, statements in groupby(it.short, lambda one: _condition(emitter, one)):
        own = printed(emitter, tuple(statements))
        lines += [f"if ({condition}) {{", *indented(own), "}"] if condition else own
    emitter.predicated = False
    return lines


def _condition(emitter: Emitter, statement: Statement) -> str:
    return "" if isinstance(statement, Move) else emitter.exists(at(statement).iteration)[0]


def _for(emitter: Emitter, op: Op, body: Sequence[Statement], bounds: Sequence[Read]) -> list[str]:
    lower, upper, step = _bounds(emitter, op, bounds)
    counter = op.regions[0].blocks[0].args[0]
    name = c_name(emitter.program.name(counter.id))
    emitter.inductions = {**(emitter.inductions or {}), counter.id: lambda i: name}
    if op.index == emitter.program.claiming:
        return _claiming(emitter, name, lower, upper, body)
    if not any(isinstance(one, Alternate) for one in body):
        own = printed(emitter, body)
        if not emitter.group.only_moves and gathers_loads(op, own):
            return unrolled(name, lower, upper, step, own)
        head = f"for (int32_t {name} = {lower}; {name} < {upper}; {name} += {step}) {{"
        return [head, *indented(own), "}"]
    head = f"for (int32_t {name} = {lower}; {name} < {upper}; {name} += {step}, ++tile_number) {{"
    return ["uint32_t tile_number = 0;", head, *indented(printed(emitter, body)), "}"]


def _claiming(emitter: Emitter, name: str, lower: str, upper: str, body: Sequence[Statement]) -> list[str]:
    """A loop over tiles that are claimed: the group that loads requests the next one before each."""
    rank = PAIR_RANK if emitter.program.pairs else "0"
    before = [f"if (thread.leader) {CLAIMED}.request(claimed, {rank});", "__syncwarp();"]
    after, following = list[str](), f"{CLAIMED}.next(claimed++, {rank})"
    if emitter.program.counted:
        before = ["uint32_t claim = 0;", f"if (thread.leader) claim = {CLAIMED}.take();"]
        publish = [f"if (thread.leader) {CLAIMED}.publish(claimed, claim);", "__syncwarp();"]
        # The leader releases what its warp has done: lanes that load tiles come together first.
        after = ["__syncwarp();", *publish] if by_threads(tuple(body)) else publish
        following = f"{CLAIMED}.next(claimed++)"
    inside = printed(emitter, body)
    if emitter.group is claims_by(emitter.program):
        inside = [*before, *inside, *after]
        if emitter.group not in readers_of_claims(emitter.program):
            inside, following = [*inside, "++claimed;"], "int32_t(__shfl_sync(~0u, claim, 0))"
    alternating = any(isinstance(one, Alternate) for one in body)
    number, count = (["uint32_t tile_number = 0;"], " ++tile_number") if alternating else ([], "")
    head = f"for (int32_t {name} = {lower}; uint32_t({name}) < uint32_t({upper});{count}) {{"
    return ["uint32_t claimed = 0;", *number, head, *indented([*inside, f"{name} = {following};"]), "}"]


def _alternate(emitter: Emitter, it: Alternate) -> list[str]:
    condition = f"tile_number % {it.tiles} == {it.index}"
    own, other = printed(emitter, it.own), printed(emitter, it.other)
    return [
        f"if ({condition}) {{",
        *indented(own),
        *(["} else {", *indented(other)] if other else []),
        "}",
    ]


def _while(
    emitter: Emitter, op: Op, before: Sequence[Statement], condition: Read | None, body: Sequence[Statement]
) -> list[str]:
    decision = op.regions[0].blocks[0].ops[-1]
    first = printed(emitter, before)
    scope = emitter.scope([condition] if condition else [])
    ends = f"if (!({scope.scalar(decision.operands[0])})) break;"
    return ["while (true) {", *indented([*first, ends, *printed(emitter, body)]), "}"]


def _if(
    emitter: Emitter,
    op: Op,
    condition: Read | None,
    then: Sequence[Statement],
    otherwise: Sequence[Statement],
) -> list[str]:
    scope = emitter.scope([condition] if condition else [])
    lines = [f"if ({scope.scalar(op.operands[0])}) {{", *indented(printed(emitter, then))]
    return [*lines, *(["} else {", *indented(printed(emitter, otherwise))] if otherwise else []), "}"]


def _span(lower: str, upper: str, step: str) -> str:
    """Iterations of a loop; 0 or less for an empty range."""
    span = upper if lower == "0" else f"{atom(upper)} - {atom(lower)}"
    if step == "1":
        return span
    rounding = plus(span, int(step) - 1) if literal(step) is not None else f"{span} + {atom(step)} - 1"
    return f"({rounding}) / {atom(step)}"
