"""What the next load of a slot needs from memory, loaded behind the load before.

A group that computes and loads (`warp.multistage`) copies tiles in the middle of an iteration. Where a number
in memory says from where, or whether the slot is read at all (`warp.skipped.read_where_taken`), every copy
would wait for that number; it is loaded behind the copies for the iteration before instead, and is there when
its turn comes. Slots that nothing reads are not filled. (Attention backward of which a quarter of the blocks
is needed, on an H200: 0.60 ms with all copies, 0.44 with those that are read, 0.38 with the numbers loaded
ahead.) Takes an `Emitter` and a loop; gives C.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.effects import effects
from twill.ir.loop import Op, Scalar, Value
from twill.ir.operands import At, Iteration, Read, Register
from twill.ir.slicing import backward_slice
from twill.ir.statements import Compute, Pipelined, ProducerLoad, Statement
from twill.ops.c import c_type
from twill.ops.table import role
from twill.targets.cuda.emitter import Emitter, indented
from twill.targets.cuda.names import c_name
from twill.targets.cuda.operations import execute
from twill.warp.skipped import read_where_taken


@dataclass(frozen=True, slots=True)
class _Next:
    """The numbers that a load of a channel needs from memory, and what loads them."""

    numbers: tuple[tuple[Value, str], ...]
    """With the variables that have them. (What is computed from one would wait for it at once.)"""
    ops: tuple[Op, ...]
    reads: tuple[Read, ...]

    def lines(self, emitter: Emitter, at: At) -> list[str]:
        """For the iteration of `at`, if there is one."""
        scope = emitter.scope(self.reads, at=at, ops=[op.index for op in self.ops])
        for op in self.ops:
            execute(scope, op)
        made = [*scope.lines, *(f"{name} = {scope.scalar(value)};" for value, name in self.numbers)]
        conditions = emitter.exists(at.iteration)
        head = f"if ({' && '.join(conditions)}) {{" if conditions else "{"
        return [head, *indented(made), "}"]


def begun(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before a loop: the numbers for the first load of each channel. From then on the emitter knows what
    follows each load, and which slots are read under a condition alone."""
    taken = read_where_taken(emitter.program, emitter.group, it)
    emitter.wanted = {channel: condition.id for channel, condition in taken.items()}
    behind, lines = dict[Statement, _Next](), list[str]()
    for channel in dict.fromkeys(one.channel for one in it.steady if isinstance(one, ProducerLoad)):
        if (own := _next(emitter, it, channel)) is None:
            continue
        emitter.numbers[channel] = {value.id: name for value, name in own.numbers}
        behind |= {
            one: own for part in (it.filled, it.prologue, it.steady) for one in _last(part, own, channel)
        }
        lines += [f"{c_type(value.type)} {name} = 0;" for value, name in own.numbers]
        lines += own.lines(emitter, At(Iteration("first")))
    emitter.behind = {
        one: lambda at, own=own: own.lines(emitter, replace(at, iteration=at.iteration.later(1)))
        for one, own in behind.items()
    }
    return lines


def ended(emitter: Emitter) -> None:
    """Behind a loop."""
    emitter.wanted, emitter.numbers, emitter.behind = {}, {}, {}


def _next(emitter: Emitter, it: Pipelined, channel: str) -> _Next | None:
    """None where threads copy nothing, load no such numbers, or do not know behind a load what those of the
    next one follow from."""
    parts = (it.filled, it.prologue, it.steady, it.epilogue, it.short)
    filled, _, steady, *others = ([*_loads(part, channel)] for part in parts)
    places = [place for place, _ in steady]
    if len(filled) != 1 or len(places) != 1 or any(others) or not steady[0][1].slots:
        return None
    if emitter.program.channel(channel).filled_by != "cp_async":
        return None
    for tile in steady[0][1].loads:
        if tile.along is not None or tile.ops[-1] in emitter.tiled:
            continue
        made = {index: emitter.program.op(index) for index in tile.ops[:-1]}
        numbers = [op.result for op in made.values() if is_number(op)]
        ops = needed_for(numbers, made)
        own = {value.id for op in ops for value in op.results}
        outside = {value.id for op in ops for value in op.operands} - own
        reads = tuple(read for read in tile.reads if read.value in outside)
        if numbers and all(_known(part, channel, reads) for part in parts[1:3]):
            names = (f"{c_name(emitter.program.name(one.id))}_for_{c_name(channel)}" for one in numbers)
            return _Next(tuple(zip(numbers, names, strict=True)), ops, reads)
    return None


def is_number(op: Op) -> bool:
    """Whether it loads a number from memory."""
    return role(op) == "pointer_load" and isinstance(op.result.type, Scalar)


def _loads(part: Sequence[Statement], channel: str) -> Iterator[tuple[int, ProducerLoad]]:
    """Those of a channel, with where they stand."""
    for place, one in enumerate(part):
        if isinstance(one, ProducerLoad) and one.channel == channel:
            yield place, one


def needed_for(values: Sequence[Value], made: Mapping[int, Op]) -> tuple[Op, ...]:
    """The operations, among some, that values follow from."""
    found = backward_slice(values, lambda value: made.get(-1 if value.producer is None else value.producer))
    return tuple(op for index, op in made.items() if index in found)


def _known(part: Sequence[Statement], channel: str, reads: Sequence[Read]) -> bool:
    """Whether what the next load reads is in registers behind each load: the same in all iterations, or left
    to the next one."""
    first = min((place for place, _ in _loads(part, channel)), default=len(part))
    for read in reads:
        writers = [i for i, one in enumerate(part) if read.location in effects(one).writes]
        left = (isinstance(one := part[i], Compute) and one.slots > 0 and i > first for i in writers)
        if not isinstance(read.location, Register) or not all(left):
            return False
    return True


def _last(part: Sequence[Statement], own: _Next, channel: str) -> Iterator[Statement]:
    """For each load of a channel: the statement behind which what the next one reads is known."""
    locations, loads = {read.location for read in own.reads}, [*_loads(part, channel)]
    ends = [*(place for place, _ in loads), len(part)][1:]
    for (place, load), end in zip(loads, ends, strict=True):
        later = (one for one in part[place + 1 : end] if isinstance(one, Compute) and one.slots)
        left = [one for one in later if locations & set(effects(one).writes)]
        yield left[-1] if left else load
