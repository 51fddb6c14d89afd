"""What the statements of one group are printed with: names, conditions, scopes of expressions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from twill.ir.effects import at
from twill.ir.loop import Op, TensorDesc
from twill.ir.operands import At, Iteration, Read, Register, Slot, Write
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import Compute, InitializeCarried, MmaIssue, Pipelined, Statement, walk
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.loads.copies import Hoisted
from twill.targets.cuda.loads.register_loads import Kept
from twill.targets.cuda.loads.tiled_corners import FixedCorner
from twill.targets.cuda.loads.tiled_loads import TiledLoad
from twill.targets.cuda.loops.positions import NOTHING_KEPT, Positions
from twill.targets.cuda.names import tensor_map
from twill.targets.cuda.registers.elements import iteration, variable
from twill.targets.cuda.scope import Scope, ScratchHalves, awaited
from twill.targets.cuda.shared.shared_tiles import boxed
from twill.targets.cuda.values.element_pairs import fused
from twill.targets.cuda.values.exchange import WHOLE, ColumnRange

DRAIN = "drain_"
"""The mbarrier, with the number of its group, on which all MMAs of a group arrive."""
READY = "ready_"
"""The mbarrier on which the same group of the second thread block of a pair arrives."""
CLAIMED = "claims"
"""The tiles that thread blocks take over while they run."""
COUNTER = "tile_counter"
ORDERED = "ordered"
"""Whether the axes of a launch are those of the programs in another order."""
PAIR_RANK, FIRST = "pair_rank", "pair_rank == 0"
"""Which block of a pair it is."""
ISSUER = "if (thread.warp == 0)"
"""The warp of a group that issues its MMAs."""
TENSOR_MEMORY_SYNC = "tensor_memory_sync"
"""The named barrier of the groups that use tensor memory."""
STORES_READ = "if (thread.leader) tma_wait_read<0>();"
"""The stores of a group have read shared memory; its leader started them."""


class MmaPrinter(Protocol):
    """How a target prints the statements of its tensor core, for one group; it keeps track of the MMAs in
    flight."""

    def issue(self, emitter: "Emitter", statement: MmaIssue) -> list[str]:
        """Raises TwillError for an MMA that the tensor core does not have."""
        ...

    def wait(self, pending: int) -> list[str]: ...

    def copied(self, emitter: "Emitter", name: str, copy: str) -> list[str]:
        """What follows a copy, called `copy`, of a variable of an earlier iteration."""
        ...

    def initialized(self, emitter: "Emitter", it: InitializeCarried) -> list[str]:
        """What follows the initialization of a tile that a loop carries."""
        ...

    def restart(self) -> None:
        """What is printed next follows code with no MMA in flight."""
        ...


@dataclass(slots=True)
class Emitter:
    """The statements of one group; `mma`, `inductions` and `halves` change as the text goes on."""

    program: Program
    group: WarpProgram
    mma: MmaPrinter
    inductions: dict[int, Callable[[str], str]] | None = None
    """Induction variables of enclosing loops, from the iteration."""
    least: int = 0
    """The smallest i of the part of a loop that is printed."""
    tiled: Mapping[int, TiledLoad] = field(default_factory=dict[int, TiledLoad])
    """Pointer loads by TMA, by the operation that loads."""
    corners: dict[int, FixedCorner] = field(default_factory=dict[int, FixedCorner])
    """What is kept of the coordinates of the loads by TMA in the loop that is printed."""
    kept: dict[int, Hoisted] = field(default_factory=dict[int, Hoisted])
    """What is kept of the copies in the loop that is printed, by the operation that loads."""
    kept_offsets: dict[int, Kept] = field(default_factory=dict[int, Kept])
    """The same of loads through registers."""
    beside_copies: frozenset[tuple[str, int]] = frozenset()
    """Tensors that TMA loads to slots which threads copy to, too: channel and number."""
    ahead: set[str] = field(default_factory=set[str])
    """The channels whose numbers of rows the iteration that is printed has loaded at its beginning."""
    unused: set[str] = field(default_factory=set[str])
    """The channels of which the loads that are printed fill slots for the first time."""
    carried: dict[str, str] = field(default_factory=dict[str, str])
    """By channel whose numbers of rows the iteration before has loaded: what their names end with."""
    wanted: Mapping[str, int] = field(default_factory=dict[str, int])
    """In the loop that is printed: the condition, by its value's id, without which an iteration reads no slot
    of a channel."""
    numbers: dict[str, Mapping[int, str]] = field(default_factory=dict[str, Mapping[int, str]])
    """By channel: the numbers in memory, by id, that are in variables when a slot is filled."""
    behind: Mapping[Statement, Callable[[At], list[str]]] = field(
        default_factory=dict[Statement, Callable[[At], list[str]]]
    )
    """What follows statements of that loop, from when they are executed."""
    early: Mapping[int, str] = field(default_factory=dict[int, str])
    """Loads through registers that the iteration before has started, by the operation that loads: the array
    that they read to."""
    predicated: bool = False
    """In that part iterations may not exist."""
    positions: Positions = NOTHING_KEPT
    """What that part keeps of channels."""
    in_loop: bool = False
    """That part is the steady state of a loop."""
    float_pairs: bool = False
    """One instruction computes two float32 elements."""
    fenced_later: bool = False
    """A fence comes between the wait for a slot that is printed and the MMAs that read it."""
    read_late: list[str] | None = None
    """Where the lines go that read a vector which the printed statement exchanges, if behind an MMA."""
    halves: ScratchHalves = field(default_factory=ScratchHalves)
    """Of the statements that are printed."""
    gathered: Mapping[Slot, str] = field(default_factory=dict[Slot, str])
    """By slot: the variable that the statement which is printed joins its reads to."""
    gathers: int = 0
    """How many such variables there are so far."""

    def scope(
        self,
        reads: Iterable[Read] = (),
        writes: Iterable[Write] = (),
        at: At | None = None,
        span: ColumnRange = WHOLE,
        ops: Sequence[int] = (),
        *,
        late: bool = False,
    ) -> Scope:
        """Results go straight to their variables where these are not read by the same statement. `late`:
        whoever prints the statement awaits its reads (`Scope.unawaited`)."""
        reads = tuple(reads)
        read = {read.location.variable for read in reads if isinstance(read.location, Register)}
        writes = tuple(writes)
        written_here = {write.value for write in writes}
        read |= {one.id for one in self.group.variables if one.buffer}
        targets = {
            write.value: variable(write.register) for write in writes if write.register.variable not in read
        }
        scope = Scope(self.program, self.group, {}, targets, span=span, positions=self.positions)
        scope.halves, scope.read_late = self.halves, self.read_late
        scope.beside_copies = self.beside_copies
        scope.float_pairs, scope.unawaited = self.float_pairs, [] if late else None
        if self.float_pairs:
            scope.fused = fused([self.program.op(index) for index in ops], frozenset(written_here))
        for value, induction in (self.inductions or {}).items():
            scope.values[value] = induction(iteration(at.iteration) if at else "i")
        scope.bind(reads, map(self.program.op, ops))
        return scope

    def awaits(self, it: Compute, slot: Slot) -> bool:
        """Whether reads of a slot are awaited at the end of a statement."""
        late = not any(self.program.op(index).regions for index in it.ops)
        return late and awaited(self.program, self.group, slot, self.beside_copies)

    def awaited(self, slot: Slot, name: str) -> str:
        """What has been read of a slot has arrived, or is joined to what other statements read there."""
        word = self.gathered.get(slot)
        return f"{word} |= joined({name});" if word else f"await_reads({name});"

    def comment(self, at: At, ops: Sequence[int], name: str) -> str:
        """The line above a statement: when it stands in the schedule, and where its operation in the text."""
        where = f"cycle {at.cycle}, stage {at.stage}: " if at.cycle is not None else ""
        return f"// {where}{name} ({self.program.op(ops[-1]).location})"

    def threads(self, order: str) -> int:
        """Of the two groups of an ordering barrier."""
        one = next(one for one in self.program.orders if one.id == order)
        return sum(
            32 * group.warps for group in self.program.groups if group.id in (one.signaller, one.waiter)
        )

    def exists(self, when: Iteration) -> list[str]:
        """The condition that there is an iteration, in a part of a loop where at least `least` have begun."""
        if self.predicated:
            return [f"uint32_t({iteration(when)}) < uint32_t(n)"]
        match when.base:
            case "once":
                return []
            case "newest" if when.offset < 0:
                return [f"{iteration(when)} < n"]
            case "newest":
                return [f"i >= {when.offset}"] if when.offset > self.least else []
            case "first" | "last":
                return [f"n > {when.offset}"] if when.offset >= self.least else []

    def following(self, one: Statement) -> list[str]:
        """What comes behind a statement, in the same iteration."""
        return self.behind[one](at(one)) if one in self.behind else []

    def of_pair(self, channel: str) -> bool:
        """Whether a channel is full when both thread blocks of a pair have their tiles."""
        return self.program.of_pair(self.program.channel(channel))


def issues(group: WarpProgram) -> bool:
    """Whether a group issues MMAs."""
    return any(isinstance(one, MmaIssue) for one in walk(group.body))


def pair_waits(program: Program, barrier: str) -> bool:
    """Whether MMAs of a pair wait for a dependence barrier of both thread blocks."""
    return program.joint(next(one for one in program.dependences if one.id == barrier))


def claims_by(program: Program) -> WarpProgram:
    """The group that claims tiles: one that loads, if there is one."""
    return next((group for group in program.groups if group.only_moves), program.groups[0])


def readers_of_claims(program: Program) -> tuple[WarpProgram, ...]:
    """The groups that read claims from shared memory. A single warp that takes numbers from a counter passes
    them on by a shuffle."""
    own = claims_by(program)
    return tuple(one for one in program.groups if not (program.counted and one is own and one.warps == 1))


def indented(lines: Iterable[str]) -> list[str]:
    """One level deeper; preprocessor lines too, so that the text reads well."""
    return [f"    {line}" if line else line for line in lines]


def trips(program: Program, loop: int) -> str:
    """The variable that holds the trip count of a pipelined loop."""
    loops = sorted(
        {one.op for group in program.groups for one in walk(group.body) if isinstance(one, Pipelined)}
    )
    return f"trips_{loops.index(loop)}"


def map_pointer(scope: Scope, op: Op) -> str:
    """The address of the tensor map that a descriptor operation works on."""
    descriptor = op.operands[0]
    if descriptor.id in scope.values:
        return scope.scalar(descriptor)
    return f"&{tensor_map(scope.program.name(descriptor.id))}"


def line_bytes(type: TensorDesc) -> int:
    """Bytes of a row of one box: a line of the swizzle pattern, or of the tile without one. Raises ValueError
    for a descriptor of neither."""
    return boxed("", type.shape, type.dtype, type.encoding).width


def box_coordinates(corner: list[str], column: int) -> str:
    """Of a box, innermost first."""
    *outer, inner = corner
    return ", ".join([plus(inner, column), *reversed(outer)])
