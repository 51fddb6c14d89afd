"""The lines of one group: what its statements have in common.

Takes a `File` and a group; keeps what the lines written so far have defined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from twill.ir.loop import Op
from twill.ir.operands import ONCE, Iteration, Read, Register
from twill.ir.program import WarpProgram
from twill.ir.statements import (
    Pipelined,
    walk,
)
from twill.targets.cuda.expressions import atom, plus, times
from twill.targets.cuda.registers.elements import variable
from twill.targets.gluon.scope import (
    File,
    Scope,
    iteration,
    number,
    safe,
)


@dataclass(slots=True)
class Emitter:
    """The statements of one group, in order."""

    file: File
    group: WarpProgram
    scope: Scope
    in_flight: tuple[str, ...] = ()
    """Accumulators of the MMAs in flight, oldest first."""
    tokens: frozenset[str] = frozenset()
    """Variables that hold what an asynchronous MMA returned, and no tile yet."""
    defined: frozenset[str] = frozenset()
    """Variables that have a value wherever the text has come to."""
    trips: str = ""
    """The trip count of the loop that is written."""
    least: int = 0
    """The smallest i of the part of a loop that is written."""
    predicated: bool = False
    """Statements are written under the condition that their iteration exists."""
    affine: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    """Lower bound and step of the pipelined loops so far, by their induction variable."""

    def begin(self, reads: Sequence[Read] = (), at: Iteration = ONCE, *, shared: bool = False) -> Scope:
        """The scope of a statement."""
        self.scope.values, self.scope.lines, self.scope.targets = {}, [], {}
        self.scope.trips = self.trips
        for value, (lower, step) in self.affine.items():
            self.scope.values[value] = atom(plus(lower, times(iteration(at, self.trips), step)))
        self.scope.bind(reads, lambda slot: number(slot.channel, slot.iteration, self.trips), shared=shared)
        return self.scope

    def comment(self, cycle: int | None, stage: int, ops: Sequence[int], name: str) -> str:
        where = f"cycle {cycle}, stage {stage}: " if cycle is not None else ""
        return f"# {where}{name} ({self.file.program.op(ops[-1]).location})"

    def arguments(self, channel: str, where: Iteration) -> str:
        """Arguments of the functions that wait: the tile's number and the number of slots."""
        return f"{number(channel, where, self.trips)}, {self.file.program.channel(channel).depth}"

    def barrier(self, name: str, channel: str, where: Iteration) -> str:
        """One of a channel's barriers."""
        depth = self.file.program.channel(channel).depth
        return (
            f"{name}.index({'0' if depth == 1 else f'{atom(number(channel, where, self.trips))} % {depth}'})"
        )

    def assigned(self, register: Register, text: str) -> list[str]:
        name = safe(variable(register))
        self.defined |= {name}
        self.tokens -= {name}
        return [f"{name} = {text}"]

    def trip_count(self, loop: int) -> str:
        loops = sorted({one.op for one in walk(self.group.body) if isinstance(one, Pipelined)})
        return f"trips_{loops.index(loop)}"

    def dependence(self, barrier: str, where: Iteration) -> str:
        """The mbarrier on which the arrivals of an iteration count."""
        one = next(one for one in self.file.program.dependences if one.id == barrier)
        return f"{barrier}.index({atom(number(barrier, where, self.trips))} % {one.depth})"

    def exists(self, when: Iteration) -> str:
        """The condition that there is an iteration, in a part of a loop where at least `least` have begun."""
        where = iteration(when, self.trips)
        if self.predicated:
            return f"({where} >= 0) & ({where} < {self.trips})"
        match when.base:
            case "once":
                return ""
            case "newest":
                return f"i >= {when.offset}" if when.offset > self.least else ""
            case "first" | "last":
                return f"{self.trips} > {when.offset}" if when.offset >= self.least else ""


def descriptor(file: File, op: Op, parts: int = 1) -> str:
    """The tensor descriptor that an operation works on; of part of its columns where `parts` is more than
    1."""
    name = safe(file.program.name(op.operands[0].id))
    return f"{name}_map" if parts == 1 else f"{name}_map_{parts}"
