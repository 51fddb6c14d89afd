"""Warp programs as text: one line per statement, for people and for goldens.

Takes a `Program`; gives lines with the iteration, the cycle of the schedule, the statement and what it reads
and writes.
"""

from collections.abc import Iterable
from typing import assert_never

from twill.ir.effects import at
from twill.ir.operands import Iteration, OperandLocation, Read, Register, Slot, TensorMemory
from twill.ir.program import Program
from twill.ir.statements import (
    SLICES,
    Advance,
    Alternate,
    BarrierArrive,
    BarrierWait,
    CommitGroup,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    LocalLoad,
    MbarrierArrival,
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
    inner,
)

_BASES = {"first": "{}", "newest": "i-{}", "last": "N-1-{}", "once": ""}


def text(program: Program) -> str:
    """The whole program."""
    shared = program.shared
    found = [
        f"# {program.function.name}: {program.launch.threads} threads, {shared.bytes} of {shared.limit} bytes"
        " of shared memory"
    ]
    found += [f"# {note}" for note in program.notes]
    for group in program.groups:
        variables = ", ".join(f"{v.id}{f' x{v.ages}' if v.ages > 1 else ''}" for v in group.variables)
        found += [
            "",
            (
                f"group {group.id}: {group.warps} warps from {group.first_warp}, {group.registers} registers"
                f"{', independent warpgroups' if group.independent else ''}: {variables}"
            ),
        ]
        found += [line for statement in group.body for line in lines(statement, 1)]
    return "\n".join([*found, ""])


def lines(statement: Statement, depth: int) -> Iterable[str]:
    """A statement and those inside it, indented by `depth` levels."""
    indent = "  " * depth
    if isinstance(statement, Pipelined):
        yield f"{indent}pipelined {statement.path}: {statement.stages} stages, interval {statement.interval}"
        parts = zip(("filled", "prologue", "steady", "epilogue", "short"), inner(statement), strict=True)
        for name, part in parts:
            if part:
                yield f"{indent}{name}"
            yield from (line for one in part for line in lines(one, depth + 1))
    elif parts := inner(statement):
        yield f"{indent}{type(statement).__name__.lower()}"
        yield from (line for part in parts for one in part for line in lines(one, depth + 1))
    else:
        yield f"{indent}{_when(statement)}{type(statement).__name__} {_what(statement)}".rstrip()


def _when(statement: Statement) -> str:
    when = at(statement)
    return "" if when.cycle is None else f"{when.cycle:>5} [{iteration(when.iteration)}] "


def iteration(it: Iteration) -> str:
    """`i-1`, `i+2`, `N-1`, `0`."""
    return _BASES[it.base].format(it.offset).replace("-0", "").replace("--", "+")


def _what(statement: Statement) -> str:
    """Names and locations of a simple statement."""
    match statement:
        case Compute(node=node, reads=reads, writes=writes, stores=stores, begin=begin, end=end):
            slices = "" if end - begin == SLICES else f" slices {begin}..{end}"
            written = (*(write.register for write in writes), *stores)
            return f"{node}{slices} {_sources(reads)} -> {' '.join(map(_location, written))}"
        case MmaIssue(
            node=node, reads=reads, begin=begin, end=end, accumulate=accumulate, accumulator=accumulator
        ):
            return (
                f"{node} k {begin}..{end} accumulate {accumulate} {_sources(reads)} ->"
                f" {_location(accumulator)}{_arrivals(statement)}"
            )
        case SchedulingFence(registers):
            return " ".join(map(_location, registers))
        case ProducerLoad(channel=channel, bytes=size):
            return f"{channel} {size} bytes"
        case ProducerStore(node=node, reads=reads, channel=channel):
            return f"{node} {_sources(reads)} -> {channel}"
        case StoreTile(reads=reads, buffer=buffer, parts=parts):
            return f"{_sources(reads)} through {buffer} in {parts}"
        case Move(variable, age):
            return f"{variable} {age}"
        case LocalLoad(source=source, register=register):
            return f"{_location(source)} -> {_location(register)}"
        case InitializeCarried(register=register) | FinalizeReduction(register=register):
            return _location(register)
        case MmaWait(pending):
            return str(pending)
        case (
            ConsumerWait(channel=name)
            | ConsumerRelease(channel=name)
            | Advance(channel=name)
            | OrderBarrierWait(order=name)
            | OrderBarrierArrive(order=name)
            | StoreWait(buffer=name)
        ):
            return name
        case BarrierArrive(barrier=name):
            return name
        case BarrierWait(barrier=name, awaited=awaited):
            return f"{name}[{iteration(awaited)}]"
        case Pipelined() | For() | While() | If() | Alternate() | TensorMemorySync():
            return ""
        case _:
            assert_never(statement)


def _arrivals(issue: MmaIssue) -> str:
    """The barriers that an MMA arrives on."""
    match issue.completion:
        case CommitGroup():
            return ""
        case MbarrierArrival(slots, barriers):
            names = [
                *(f"{slot.state} {slot.channel}[{iteration(slot.iteration)}]" for slot in slots),
                *(f"{phase.barrier}[{iteration(phase.iteration)}]" for phase in barriers),
            ]
            return f", arrives on {', '.join(names)}" if names else ""


def _sources(reads: Iterable[Read]) -> str:
    return " ".join(_location(read.location) for read in reads)


def _location(location: OperandLocation) -> str:
    match location:
        case Register(variable, age):
            return variable + "'" * age
        case Slot(channel, tensor, when):
            return f"{channel}.{tensor}[{iteration(when)}]"
        case TensorMemory(tile, when):
            return f"{tile}[{iteration(when)}]"
