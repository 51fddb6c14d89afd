"""Schedules for TileLang: a `WSSchedule` for `T.annotate_ws_schedule` from warp programs.

Takes a `Program` with its scheduled loops; gives a Python file with a function that makes the schedule from
the shared buffers of a TileLang kernel. TileLang's rules (tile-ai/tilelang, docs/programming_guides on warp
specialization, src/cuda/transform/materialize_ws_schedule.cc): an operation that touches a pipeline runs as
many iterations behind as the stage of the wait or acquire that it stands behind; every other operation runs
in the iteration of the loop itself; a pipeline has one role that fills it and one that reads it; an
accumulator in tensor memory needs a pipeline, in the scope around the loops. Raises TwillError, with the
operation's line, for a schedule that breaks them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.diagnostics import TwillError
from twill.ir.channels import TensorTile
from twill.ir.operands import OperandLocation, Slot, TensorMemory
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    SLICES,
    BarrierArrive,
    BarrierWait,
    Compute,
    For,
    MmaIssue,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreTile,
    walk,
)
from twill.targets.cuda.emitter import indented
from twill.warp.tasks import Scheduled

WAY_OUT = "use `twill export --to gluon`, which has no such rule"


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of a loop body."""

    id: str
    stage: int
    """Iterations behind."""
    produces: str | None
    """The channel that it fills."""
    consumes: tuple[str, ...]
    """The channels that it reads."""
    op: int


HEAD = '''\
import tilelang.language as T


def schedule(buffers, before=None, after=None, read=None):
    """For T.annotate_ws_schedule. `buffers`: the kernel's buffers in shared memory (without the slots) and
    in tensor memory, by the names below. `before` and `after`: by role, the ids of the statements that it
    executes before and after the scheduled loops, once for each tile of a persistent kernel. `read`: by role,
    those that read accumulators in tensor memory, in front of `after`. The loops and their operations get
    the ids below by annotations={T.WSID: ...}."""
    before, after, read = before or {}, after or {}, read or {}
    return T.WSSchedule(
'''


def schedule(program: Program, loops: Sequence[Scheduled]) -> str:
    """The file."""
    paths = {one.loop.op.index: _ids(one) for one in loops}
    nodes = {op: node.id for one in loops for node in one.graph.nodes for op in node.ops}
    scopes = dict[int, dict[str, list[str]]]()
    around = list[_Around]()
    for group in program.groups:
        outer, found = _loops(program, group, group.body)
        bodies = {one.op: _body(_steps(program, one.steady, nodes)) for one in found}
        inside = [loop for loop, body in bodies.items() if body]
        for loop in inside:
            scopes.setdefault(loop, {})[_role(group)] = bodies[loop]
        around.append(_Around(group.id, outer, [repr(paths[loop][-1]) for loop in inside]))
    handed = _handed_accumulators(program)
    enclosing = {ids[:-1] for ids in paths.values()}
    if len(enclosing) > 1:
        raise _refuse(program, loops[-1].loop.op.index, "a loop in another loop than the loops before it")
    made = [line for loop, own in sorted(scopes.items()) for line in _scope(repr(paths[loop][-1]), own)]
    made += _enclosing(around, enclosing.pop(), handed)
    lines = [
        f"num_warps={-(-program.launch.threads // 128) * 4},",
        *_list("roles", [_warps(program, group) for group in program.groups]),
        *_list("pipelines", [*_pipelines(program), *(one.pipeline for one in handed)]),
        "scopes=[",
        *indented(made),
        "],",
    ]
    title = f'"""{program.function.name}, scheduled by twill from {program.module.file}."""'
    return "\n".join([title, "", HEAD + "\n".join(indented(indented(lines))), "    )", ""])


def _ids(one: Scheduled) -> tuple[str, ...]:
    """The ids of a scheduled loop and of the loops around it, outermost first."""
    names = [part.replace(".", "_") for part in one.loop.path.split("/")[1:]]
    return tuple("_".join(names[: i + 1]) for i in range(len(names)))


@dataclass(frozen=True, slots=True)
class _Around:
    """A group outside of the scheduled loops."""

    group: int
    outer: int
    """Loops around them."""
    loops: list[str]
    """The ids of those in which it does something, in order."""


@dataclass(frozen=True, slots=True)
class _Handed:
    """An accumulator in tensor memory that the loops of one group leave to another."""

    tile: TensorTile
    producer: int
    consumer: int

    @property
    def pipeline(self) -> str:
        return f'T.WSPipeline("{self.tile.id}", [buffers["{self.tile.id}"]], depth={self.tile.buffers})'


def _enclosing(around: Sequence[_Around], outer: tuple[str, ...], handed: Sequence[_Handed]) -> list[str]:
    """The scopes outside of the scheduled loops, innermost first. The MMAs of a tile fill the buffers of its
    accumulators, which another group reads after its loops."""
    bodies = dict[str, list[str]]()
    for one in around:
        filled = [own.tile.id for own in handed if own.producer == one.group]
        read = [own.tile.id for own in handed if own.consumer == one.group]
        role = f"group_{one.group}"
        bodies[role] = [
            f'*before.get("{role}", [])',
            *(_sync("producer_acquire", tile, 0) for tile in filled),
            *one.loops,
            *(_sync("producer_commit", tile, 0) for tile in filled),
            *(_sync("consumer_wait", tile, 0) for tile in read),
            *([f'*read.get("{role}", [])'] if read else []),
            *(_sync("consumer_release", tile, 0) for tile in read),
            f'*after.get("{role}", [])',
        ]
    names = [*map(repr, reversed(outer)), "T.WSScope.ROOT"]
    lines = _scope(names[0], bodies)
    for name, inside in zip(names[1:], names, strict=False):
        lines += _scope(name, {role: [inside] for role in bodies})
    return lines


def _list(name: str, items: Sequence[str]) -> list[str]:
    return [f"{name}=[", *indented(f"{item}," for item in items), "],"]


def _role(group: WarpProgram) -> str:
    return f"group_{group.id}"


def _warps(program: Program, group: WarpProgram) -> str:
    """With 0 for registers that stay as they are."""
    first, last = group.first_warp, group.first_warp + group.warps
    registers = 0 if program.launch.even else group.registers
    return f'T.WSRole("{_role(group)}", warps_lo={first}, warps_hi={last}, max_nreg={registers})'


def _pipelines(program: Program) -> Iterator[str]:
    for one in program.channels:
        buffers = ", ".join(f'buffers["{tensor.name}"]' for tensor in one.tensors)
        yield f'T.WSPipeline("{one.id}", [{buffers}], depth={one.depth})'


def _scope(name: str, bodies: Mapping[str, list[str]]) -> list[str]:
    inside = [line for role, entries in bodies.items() for line in _entries(role, entries)]
    return ["T.WSScope(", *indented([f"{name},", "{", *indented(inside), "},"]), "),"]


def _entries(role: str, entries: Sequence[str]) -> list[str]:
    return [f'"{role}": [', *indented(f"{entry}," for entry in entries), "],"]


def _loops(program: Program, group: WarpProgram, body: Sequence[Statement]) -> tuple[int, list[Pipelined]]:
    """The pipelined loops of a group, which stand side by side, and how many loops are around them. Raises
    TwillError."""
    found, around = list[Pipelined](), list[For]()
    for statement in body:
        match statement:
            case Pipelined(filled=filled):
                if filled:
                    raise _refuse(program, statement.op, "a group that computes and loads")
                found.append(statement)
            case ProducerLoad() | ProducerStore():
                raise _refuse(program, _last(statement), "a channel that is filled outside of the loops")
            case For() if _has_loops(statement):
                around.append(statement)
            case _ if _has_loops(statement):
                raise _refuse(program, _last(statement), "a branch or while loop around the scheduled loops")
            case _:
                pass
    if not around:
        return 0, found
    if found or len(around) > 1:
        raise _refuse(program, around[-1].op, "a loop beside a loop around other scheduled loops")
    outer, found = _loops(program, group, around[0].body)
    return outer + 1, found


def _has_loops(statement: Statement) -> bool:
    return any(isinstance(one, Pipelined) for one in walk((statement,)))


def _handed_accumulators(program: Program) -> list[_Handed]:
    """The tiles of tensor memory. Raises TwillError for one that is not filled by the MMAs of one group and
    read by another group after its loops."""
    found = list[_Handed]()
    for tile in program.tensor_memory:
        issued = {
            (group.id, one.ops[-1])
            for group in program.groups
            for one in walk(group.body)
            if isinstance(one, MmaIssue) and _uses(tile, one.accumulator)
        }
        dot = max((op for _, op in issued), default=0)
        readers = {group.id for group in program.groups if _accesses(group, tile)}
        producers = {group for group, _ in issued}
        if len(producers) != 1 or len(readers) != 1 or producers & readers:
            what = "tensor memory that its group reads" if producers & readers else "its tensor memory"
            raise _refuse(program, dot, what)
        found.append(_Handed(tile, producers.pop(), readers.pop()))
    return found


def _uses(tile: TensorTile, location: OperandLocation) -> bool:
    return isinstance(location, TensorMemory) and location.tile == tile.id


def _accesses(group: WarpProgram, tile: TensorTile) -> bool:
    """Whether the threads of a group read or write a tile."""
    computing = (one for one in walk(group.body) if isinstance(one, Compute))
    return any(
        _uses(tile, location)
        for one in computing
        for location in (*(read.location for read in one.reads), *one.stores)
    )


def _last(statement: Statement) -> int:
    """An operation to point at."""
    match statement:
        case ProducerLoad(loads=loads):
            return loads[-1].ops[-1]
        case ProducerStore(ops=ops) if ops:
            return ops[-1]
        case _:
            return int(getattr(statement, "op", 0))


def _refuse(program: Program, op: int, what: str) -> TwillError:
    one = program.op(op)
    text = program.module.text.splitlines()[one.location.line - 1]
    message = f"{one.name}: {what} can not be expressed as a WSSchedule"
    return TwillError(message, one.location, text=text, span=len(one.name), help=WAY_OUT)


# --- one loop in one group ----------------------------------------------------------------------------------


def _steps(program: Program, steady: Iterable[Statement], nodes: Mapping[int, str]) -> list[Step]:
    """The operations of the steady state, in order. Raises TwillError."""
    found = list[Step]()
    for statement in steady:
        match statement:
            case ProducerLoad(channel=channel, loads=loads, at=at):
                _single_reader(program, channel, loads[-1].ops[-1])
                found += [
                    Step(nodes[one.ops[-1]], at.iteration.offset, channel, (), one.ops[-1]) for one in loads
                ]
            case ProducerStore(channel=channel, node=node, ops=ops, values=values, at=at):
                last = ops[-1] if ops else int(program.value(values[0]).producer or 0)
                _single_reader(program, channel, last)
                found.append(Step(node, at.iteration.offset, channel, _read(statement), last))
            case MmaIssue(begin=begin) if begin:
                pass
            case Compute(end=end) if end < SLICES:
                pass
            case MmaIssue(node=node, ops=ops, at=at) | Compute(node=node, ops=ops, at=at):
                found.append(Step(node, at.iteration.offset, None, _read(statement), ops[-1]))
            case StoreTile(ops=ops, at=at):
                found.append(Step(nodes[ops[-1]], at.iteration.offset, None, _read(statement), ops[-1]))
            case OrderBarrierWait(order=order) | OrderBarrierArrive(order=order):
                raise TwillError(
                    f"the order of MMAs of two groups ({order}) can not be expressed as a WSSchedule",
                    program.function.location,
                    help=WAY_OUT,
                )
            case BarrierWait(barrier=barrier) | BarrierArrive(barrier=barrier):
                reason = next(one.reason for one in program.dependences if one.id == barrier)
                raise TwillError(
                    f"an order of accesses to tensor memory ({reason}) can not be expressed as a WSSchedule",
                    program.function.location,
                    help=WAY_OUT,
                )
            case _:
                pass
    return _checked(program, found)


def _single_reader(program: Program, channel: str, op: int) -> None:
    """A pipeline has two roles."""
    if len(program.channel(channel).consumers) > 1:
        raise _refuse(program, op, f"a channel that several groups read ({channel})")


def _read(statement: MmaIssue | Compute | StoreTile | ProducerStore) -> tuple[str, ...]:
    slots = (read.location for read in statement.reads)
    return tuple(dict.fromkeys(slot.channel for slot in slots if isinstance(slot, Slot)))


def _checked(program: Program, steps: list[Step]) -> list[Step]:
    """Raises TwillError for an operation that is behind without touching a channel, and for a channel whose
    readers are not in the same iteration."""
    first = min((one.stage for one in steps), default=0)
    stages = dict[str, int]()
    for one in steps:
        if one.stage > first and not one.consumes and one.produces is None:
            raise _refuse(
                program, one.op, f"an operation {one.stage - first} iterations behind that reads no slot"
            )
        for channel in one.consumes:
            if stages.setdefault(channel, one.stage) != one.stage:
                raise _refuse(program, one.op, f"readers of {channel} in several iterations")
    return steps


def _body(steps: Sequence[Step]) -> list[str]:
    """Acquire and commit around what fills a channel, wait and release around what reads one."""
    entries = list[str]()
    for number, one in enumerate(steps):
        before, behind = steps[:number], steps[number + 1 :]
        for channel in one.consumes:
            if not any(channel in other.consumes for other in before):
                entries.append(_sync("consumer_wait", channel, one.stage))
        if one.produces and not any(other.produces == one.produces for other in before):
            entries.append(_sync("producer_acquire", one.produces, one.stage))
        entries.append(repr(one.id))
        if one.produces and not any(other.produces == one.produces for other in behind):
            entries.append(_sync("producer_commit", one.produces, one.stage))
        for channel in one.consumes:
            if not any(channel in other.consumes for other in behind):
                entries.append(_sync("consumer_release", channel, one.stage))
    return entries


def _sync(word: str, channel: str, stage: int) -> str:
    return f'T.WSSync.{word}("{channel}", stage={stage})'
