"""The dependence graph of one loop: what is computed, where its results lie, and what must wait for what. No
machine yet.

`extract.dependence.graph` makes a `Graph` from a loop; `costs.model.costed` turns it into a `Problem` for a
machine.

Guarantees: every edge, value and use names nodes of the graph; edges of total distance 0 form no circuit; the
order of nodes is that of the text, and everything else follows it.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from twill.diagnostics import Location
from twill.ir.problem import Source

Place = Literal["registers", "shared", "tensor", "global", "scalar"]

Kind = Literal[
    "load",
    "store",
    "atomic",
    "mma",
    "elementwise",
    "reduce",
    "scan",
    "convert",
    "shared_store",
    "shared_load",
    "tensor_store",
    "tensor_load",
    "tensor_update",
    "branch",
    "view",
    "scalar",
]
"""tensor_update: load, elementwise, store of a tensor memory tile in chunks. branch: an `scf.if`. view: moves
nothing."""

EdgeKind = Literal["data", "carried", "token", "raw", "war", "waw"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of data as one operation sees it."""

    shape: tuple[int, ...]
    """() is a scalar."""
    dtype: str
    """`f16`, `bf16`, `f8E4M3FN`, `i1`, `ptr`, ..."""
    bits: int
    """Of one element."""
    place: Place
    registers: int = 0
    """32-bit registers per thread in its layout; in shared memory, those that a group takes while it computes
    with the tile."""
    held: int = 0
    """Elements that all threads hold together, replicas counted: what an elementwise operation works on.
    `elements` outside registers."""
    columns: int = 0
    """32-bit columns of tensor memory."""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Without replicas."""
        return -(-self.elements * self.bits // 8)

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype])


@dataclass(frozen=True, slots=True)
class Exchange:
    """How a reduced row is spread over threads."""

    serial: int
    """Elements of a row that one thread holds."""
    lanes: int
    """log2 of the lanes of a warp that share a row."""
    warps: int
    """log2 of the warps that share a row."""


@dataclass(frozen=True, slots=True)
class Work:
    """One operation's worth of work, ready to be looked up in a cost table."""

    op: str
    """The row of the cost table: a TTGIR name, or `ffma`."""
    kind: Kind
    inputs: tuple[Tile, ...] = ()
    outputs: tuple[Tile, ...] = ()
    fixed: int = 0
    """How many of its operands are the same in every iteration."""
    mnk: tuple[int, int, int] | None = None
    """Of a matrix product: `inputs` are then A and B."""
    read: int = 0
    """Of a matrix product: bytes that all warps together read of operands which stay in shared memory during
    the loop."""
    exchange: Exchange | None = None
    """Of a reduction or scan."""
    combine: tuple[str, ...] = ()
    """Of a reduction or scan: the operations that join two elements."""
    warps: int = 4
    """That its register tiles are spread over."""
    bounds: int = 0
    """Of a store through pointers: instructions that compare the indices of an access with bounds."""
    access: int = 0
    """Of a store through pointers: bytes that a thread stores at once. 0 for the most that it can."""
    polynomial: int = 0
    """So many of `PARTS` of its elements are computed by a polynomial (`ir.problem`)."""
    beside: bool = False
    """Needs nothing of the work before it in its node: their instructions alternate."""
    location: Location | None = None

    @property
    def tile(self) -> Tile | None:
        """The largest tile in sight, by elements held: how much work an elementwise operation or a reduction
        is."""
        return max([*self.outputs, *self.inputs], key=lambda t: t.held, default=None)


@dataclass(frozen=True, slots=True)
class Node:
    """One thing to schedule: a TTGIR operation, with those folded into it."""

    id: str
    """`exp2.p_17`: what it is, and the SSA name of its first result."""
    kind: Kind
    op: str
    """TTGIR name of the operation that gave it its place."""
    work: tuple[Work, ...]
    """Done one behind the other, streamed in chunks where there are several."""
    otherwise: tuple[Work, ...] = ()
    """The work of an `scf.if`'s other branch; one of both is done."""
    seldom: tuple[bool, bool] = (False, False)
    """Whether `work` and `otherwise` are done in a few iterations alone, however many the loop has."""
    ops: tuple[int, ...] = ()
    """`ir.loop.Op.index` of all its operations, the folded ones included, in the order of the text."""
    partial: bool = False
    """A sum that each thread keeps of its own elements: threads join theirs once, behind the loop."""
    streaming: bool = False
    """A load whose address needs nothing computed or loaded in the loop."""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """A reader of a value: instance k of it is read by instance k + distance of `node`."""

    node: str
    distance: int = 0
    updates: bool = False
    """Writes its own result over the value, which stays in the same place."""
    keeps: bool = True
    """Needs the value while it runs; False where the result takes its place bit by bit."""


@dataclass(frozen=True, slots=True)
class Value:
    """A result and its place. One that is updated in place, by however many operations, is one value."""

    id: str
    node: str
    """The node that writes it first in an iteration (the first that updates it, if it is carried)."""
    tile: Tile
    uses: tuple[Use, ...] = ()
    resident: bool = False
    """Carried round the loop in place."""
    writers: tuple[str, ...] = ()
    """Every node that writes it, in order; where it lies in registers they must be in one group."""
    stays: bool = False
    """Its readers take it from registers of the group that makes it."""

    @property
    def group(self) -> tuple[str, ...]:
        """The nodes that one group must have: what writes the registers, and what takes it from there."""
        readers = (use.node for use in self.uses) if self.stays else ()
        return tuple(dict.fromkeys((*self.writers, *readers))) if self.tile.place == "registers" else ()


@dataclass(frozen=True, slots=True)
class Edge:
    """`dst`, `distance` iterations on, needs `src` (data, carried, token, raw), or must not overtake it (war,
    waw)."""

    src: str
    dst: str
    kind: EdgeKind
    distance: int = 0
    value: str | None = None
    """The value handed over (data, carried, raw) or overwritten (war, waw)."""
    streams: bool = False
    """In one group `dst` may work on the first part of the tile while `src` makes the rest."""
    accumulates: bool = False
    """Both are matrix products into the same accumulator, which the tensor core keeps in order by itself."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """A tile defined before the loop and read in it, or kept by an operation of the loop for itself: it takes
    its room all the time."""

    id: str
    tile: Tile
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A loop's dependence graph."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    values: tuple[Value, ...]
    invariants: tuple[Invariant, ...] = ()
    warps: int = 4
    """`ttg.num-warps`: the width of a group that works on register tiles."""
    target: str | None = None
    """`cuda:90`, ... where the module says."""
    rules: tuple[str, ...] = ()
    """The simplifications that were allowed."""
    source: Source | None = None
    _nodes: dict[str, Node] = field(init=False, repr=False, compare=False, default_factory=dict[str, Node])

    _made: dict[str, list[Value]] = field(
        init=False, repr=False, compare=False, default_factory=dict[str, list[Value]]
    )

    def __post_init__(self) -> None:
        self._nodes.update((node.id, node) for node in self.nodes)
        for value in self.values:
            self._made.setdefault(value.node, []).append(value)

    def node(self, id: str) -> Node:
        """The node called `id`. Raises KeyError where there is none."""
        return self._nodes[id]

    def made(self, id: str) -> tuple[Value, ...]:
        """The values whose node is `id`."""
        return tuple(self._made.get(id, ()))

    def following(self, id: str, inside: Container[str] | None = None) -> set[str]:
        """What follows from node `id` in the same iteration, on paths through nodes `inside` alone where
        these are given."""
        found, left = set[str](), [id]
        while left:
            here = left.pop()
            behind = {edge.dst for edge in self.edges if edge.src == here and not edge.distance} - found
            behind = {one for one in behind if inside is None or one in inside}
            found |= behind
            left += behind
        return found

    def into(self, id: str) -> Iterator[Edge]:
        """The edges that end in node `id`."""
        return (edge for edge in self.edges if edge.dst == id)
