"""Schedules for TileLang: a `WSSchedule` for `T.annotate_ws_schedule` from warp programs.

Takes a `Program` with its scheduled loops; gives a Python file with a function that makes the schedule from
the shared buffers of a TileLang kernel. TileLang's rules (tile-ai/tilelang, docs/programming_guides on warp
specialization, src/cuda/transform/materialize_ws_schedule.cc): an operation that touches a pipeline runs as
many iterations behind as the stage of the wait or acquire that it stands behind; every other operation runs
in the iteration of the loop itself. Raises TwillError, with the operation's line, for a schedule that breaks
them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.diagnostics import TwillError
from twill.ir.operands import Slot
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    SLICES,
    Compute,
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


def schedule(buffers, before=None, after=None):
    """For T.annotate_ws_schedule. `buffers`: the shared buffers of the kernel, by the names below. `before`
    and `after`: by role, the ids of the statements that it executes before and after the loops. The loops
    and their operations get the ids below by annotations={T.WSID: ...}."""
    before, after = before or {}, after or {}
    return T.WSSchedule(
'''


def schedule(program: Program, loops: Sequence[Scheduled]) -> str:
    """The file."""
    paths = {one.loop.op.index: one.loop.path.rpartition("/")[2].replace(".", "_") for one in loops}
    nodes = {op: node.id for one in loops for node in one.graph.nodes for op in node.ops}
    scopes = dict[int, dict[str, list[str]]]()
    root = dict[str, list[str]]()
    for group in program.groups:
        for loop in _loops(program, group):
            steps = _steps(program, loop.steady, nodes)
            scopes.setdefault(loop.op, {})[_role(group)] = _body(program, steps)
            root.setdefault(_role(group), []).append(repr(paths[loop.op]))
    made = [line for loop, bodies in sorted(scopes.items()) for line in _scope(repr(paths[loop]), bodies)]
    around = {
        role: [f'*before.get("{role}", [])', *ids, f'*after.get("{role}", [])'] for role, ids in root.items()
    }
    lines = [
        f"num_warps={program.launch.threads // 32},",
        *_list("roles", [_warps(group) for group in program.groups]),
        *_list("pipelines", [_pipeline(program, channel.id) for channel in program.channels]),
        "scopes=[",
        *indented([*made, *_scope("T.WSScope.ROOT", around)]),
        "],",
    ]
    title = f'"""{program.function.name}, scheduled by twill from {program.module.file}."""'
    return "\n".join([title, "", HEAD + "\n".join(indented(indented(lines))), "    )", ""])


def _list(name: str, items: Sequence[str]) -> list[str]:
    return [f"{name}=[", *indented(f"{item}," for item in items), "],"]


def _role(group: WarpProgram) -> str:
    return f"group_{group.id}"


def _warps(group: WarpProgram) -> str:
    first, last = group.first_warp, group.first_warp + group.warps
    return f'T.WSRole("{_role(group)}", warps_lo={first}, warps_hi={last}, max_nreg={group.registers})'


def _pipeline(program: Program, channel: str) -> str:
    one = program.channel(channel)
    buffers = ", ".join(f'buffers["{tensor.name}"]' for tensor in one.tensors)
    return f'T.WSPipeline("{one.id}", [{buffers}], depth={one.depth})'


def _scope(name: str, bodies: Mapping[str, list[str]]) -> list[str]:
    inside = [line for role, entries in bodies.items() for line in _entries(role, entries)]
    return ["T.WSScope(", *indented([f"{name},", "{", *indented(inside), "},"]), "),"]


def _entries(role: str, entries: Sequence[str]) -> list[str]:
    return [f'"{role}": [', *indented(f"{entry}," for entry in entries), "],"]


def _loops(program: Program, group: WarpProgram) -> Iterator[Pipelined]:
    """The pipelined loops of a group, which stand side by side. Raises TwillError."""
    for statement in group.body:
        match statement:
            case Pipelined():
                yield statement
            case ProducerLoad() | ProducerStore():
                raise _refuse(program, _last(statement), "a channel that is filled outside of the loops")
            case _ if any(isinstance(one, Pipelined) for one in walk((statement,))):
                raise _refuse(program, _last(statement), "a loop or branch around the scheduled loops")
            case _:
                pass


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
                found += [
                    Step(nodes[one.ops[-1]], at.iteration.offset, channel, (), one.ops[-1]) for one in loads
                ]
            case ProducerStore(channel=channel, node=node, ops=ops, values=values, at=at):
                last = ops[-1] if ops else int(program.value(values[0]).producer or 0)
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
            case _:
                pass
    return _checked(program, found)


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


def _body(program: Program, steps: Sequence[Step]) -> list[str]:
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
