"""Tiles that a group holds in registers while a loop runs, in shared memory instead.

Takes a `Program`; gives which variables may lie there (`kept_tiles`) and the program in which some do
(`in_shared_memory`). ptxas is tried with that where it spills: it would put some of the same numbers in local
memory, one by one. What is printed otherwise follows from `Variable.buffer`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.channels import Buffer
from twill.ir.effects import effects
from twill.ir.loop import Scalar, Tensor
from twill.ir.operands import OperandLocation, Register
from twill.ir.program import Program, Variable, WarpProgram
from twill.ir.statements import Compute, InitializeCarried, Pipelined, Statement, walk
from twill.ops.table import is_elementwise

ALIGNMENT = 128
"""Bytes: the addresses of buffers are multiples of it."""
SHORT = ("f16", "bf16")
"""Element types of 16 bits that are widened to float32 without rounding."""


@dataclass(frozen=True, slots=True)
class KeptTile:
    """A variable that may lie in shared memory."""

    group: int
    variable: Variable
    stored: Tensor
    """The type of its elements there."""
    accesses: tuple[tuple[str, int], ...]
    """How many statements of an iteration read or write it, by the paths of the loops where some do: none for
    a tile that only waits for code behind loops."""

    @property
    def each_iteration(self) -> int:
        """These of all loops."""
        return sum(count for _, count in self.accesses)


def kept_tiles(program: Program) -> tuple[KeptTile, ...]:
    """The tiles that are held while a loop runs, and that no MMA reads or writes: no iteration changes them,
    each one does, or only code behind the loop uses them. Those with the fewest accesses first."""
    found = [one for group in program.groups if _together(group) for one in _of_group(program, group)]
    return tuple(sorted(found, key=lambda one: one.each_iteration))


def in_shared_memory(program: Program, sizes: Mapping[KeptTile, int]) -> Program:
    """The program with some tiles in shared memory, of so many bytes each."""
    buffers, places, offset = (
        list(program.buffers),
        dict[tuple[int, str], Variable](),
        program.shared.barriers,
    )
    for one, size in sizes.items():
        buffers.append(Buffer(f"tile{one.group}_{one.variable.id}", offset, size))
        stored = None if one.stored == one.variable.type else one.stored
        kept = replace(one.variable, buffer=buffers[-1].id, stored=stored)
        places[one.group, one.variable.id] = kept
        offset += aligned(size)
    groups = (
        replace(group, variables=tuple(places.get((group.id, one.id), one) for one in group.variables))
        for group in program.groups
    )
    total = program.shared.bytes + offset - program.shared.barriers
    shared = replace(program.shared, bytes=total, barriers=offset)
    return replace(program, groups=tuple(groups), buffers=tuple(buffers), shared=shared)


def aligned(size: int) -> int:
    """Bytes from a tile of so many to the next one."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _together(group: WarpProgram) -> bool:
    """Whether a group computes, and all of its warps execute its body together."""
    return not (group.only_moves or group.independent or group.of)


def _of_group(program: Program, group: WarpProgram) -> Iterator[KeptTile]:
    order = tuple(walk(group.body))
    begins = [place for place, one in enumerate(order) if isinstance(one, Pipelined)]
    for variable in group.variables:
        own = [place for place, one in enumerate(order) if _accesses(variable, one)]
        kind, plain = variable.type, all(_by_threads(program, order[place]) for place in own)
        held = plain and any(own[0] < begin < own[-1] for begin in begins if own)
        if not held or variable.buffer or variable.ages > 1:
            continue
        if isinstance(kind, Tensor) and len(kind.shape) > 1:
            stored = _widened(program, variable, [order[place] for place in own]) or kind
            yield KeptTile(group.id, variable, stored, tuple(_in_loops(variable, order)))


def _in_loops(variable: Variable, order: Sequence[Statement]) -> Iterator[tuple[str, int]]:
    for loop in order:
        if isinstance(loop, Pipelined):
            count = sum(_accesses(variable, one) for one in walk(loop.steady))
            yield from [(loop.path, count)] if count else []


def _accesses(variable: Variable, statement: Statement) -> int:
    """How often a statement reads or writes a variable as a whole."""
    found = effects(statement)
    return _names(variable, found.reads) + _names(variable, found.writes)


def _names(variable: Variable, locations: Sequence[OperandLocation]) -> bool:
    return any(isinstance(one, Register) and one.variable == variable.id for one in locations)


def _by_threads(program: Program, statement: Statement) -> bool:
    """Whether a statement uses what it reads and writes element by element, as threads hold it."""
    match statement:
        case InitializeCarried():
            return True
        case Compute():
            branches = any(program.op(index).regions for index in statement.ops)
            return not statement.deferred and not branches
        case _:
            return False


def _widened(program: Program, variable: Variable, own: Sequence[Statement]) -> Tensor | None:
    """The shorter type that all values of a variable are widened from; None where there is none."""
    found = set[Tensor | None]()
    for one in own:
        writes = one.writes if isinstance(one, Compute) else ()
        found |= {_source(program, each.value) for each in writes if each.register.variable == variable.id}
        found |= {None} if isinstance(one, InitializeCarried) else set()
    return found.pop() if len(found) == 1 else None


def _source(program: Program, value: int) -> Tensor | None:
    maker = program.maker(program.value(value))
    if maker is None or not is_elementwise(maker) or len(maker.operands) != 1:
        return None
    before, after = maker.operands[0].type, maker.result.type
    if not isinstance(before, Tensor) or not isinstance(after, Tensor) or after.dtype != Scalar("f32"):
        return None
    return before if isinstance(before.dtype, Scalar) and before.dtype.name in SHORT else None
