"""Dependence graph x machine -> scheduling problem, in machine cycles.

Takes a `Graph`, a `Machine` and what-ifs; gives the `Problem`. `costs` keeps how every number came about.
Guarantees: an operation without a cost is refused with its place; what lies in memory all through the loop
(tiles defined before it) is taken off the limits for shared and tensor memory, and in registers is a resident
value; the room of the code after the loop is not counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import ceil

from twill.costs import contention
from twill.costs.charge import Charge, branch, charge, streamed
from twill.diagnostics import TwillError
from twill.ir import graph as ir
from twill.ir.graph import Graph, Node, Work
from twill.ir.machine import Machine
from twill.ir.problem import PARTS, Edge, Limits, Operation, Problem, Reservation, Use, Value, choice
from twill.ops.table import lookup


@dataclass(frozen=True, slots=True)
class Overrides:
    """What-ifs: None and empty leave everything as the machine says."""

    latency: Mapping[str, int] = field(default_factory=dict[str, int])
    """Cycles, by operation id."""
    groups: int | None = None
    """All groups, the loads' included."""
    registers: int | None = None
    """Per thread."""
    shared: int | None = None
    tensor: int | None = None
    prefetch: int | None = None
    """How many iterations loads may run ahead; 0: they are waited for."""
    ahead: Mapping[str, int] = field(default_factory=dict[str, int])
    """The same, by operation id; the others then run ahead as without."""
    polynomial: bool = False
    """A polynomial may compute some of the elements of operations that have one: the problem has the choice
    of how many."""
    contention: bool = True
    """Operations are costed under contention with a tensor core that works as much as it can at best
    (`costs.contention`)."""


@dataclass(frozen=True, slots=True)
class OperationCost:
    """One node with all its numbers and where they come from."""

    node: Node
    charge: Charge
    operation: Operation


def costed(graph: Graph, machine: Machine, overrides: Overrides = Overrides()) -> Problem:
    """The problem of scheduling `graph` on `machine`. Raises TwillError for operations without a cost and
    unknown ids."""
    return costed_with_formulas(graph, machine, overrides)[0]


def costed_with_formulas(
    graph: Graph, machine: Machine, overrides: Overrides = Overrides()
) -> tuple[Problem, dict[str, str]]:
    """`costed`, and the cost formula of every node by id, of every implementation."""
    found = {
        f"{parts}/{PARTS} by polynomial": _costing(with_polynomial(graph, parts), machine, overrides)
        for parts in (
            range(MOST_PARTS + 1) if overrides.polynomial and with_polynomial(graph, 1) != graph else (0,)
        )
    }
    formulas = {
        node.id: dict.fromkeys(one.costs[node.id].charge.formula for one in found.values())
        for node in graph.nodes
    }
    problem = choice({name: one.problem() for name, one in found.items()})
    return problem, {op: "; or ".join(texts) for op, texts in formulas.items()}


MOST_PARTS = 4
"""Of `PARTS` elements that polynomials compute at most: they take longer than the unit which they relieve."""
_FEWEST = 2 * PARTS
"""Elements of a thread from which on some of them are computed otherwise: a pair for each part."""


def with_polynomial(graph: Graph, parts: int) -> Graph:
    """The graph with so many parts of the elements of every tile computed by a polynomial, where there is one
    for its operation."""
    return replace(graph, nodes=tuple(_computed(node, parts) for node in graph.nodes))


def implemented(graph: Graph, problem: Problem) -> Graph:
    """The graph with its tiles computed as the problem's implementation has it."""
    nodes = (_computed(node, problem.operation(node.id).polynomial) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def _computed(node: Node, parts: int) -> Node:
    work = tuple(replace(one, polynomial=parts) if _divisible(one) else one for one in node.work)
    return replace(node, work=work)


def _divisible(work: Work) -> bool:
    tile, row = work.tile, lookup(work.op)
    large = tile is not None and tile.dtype == "f32" and tile.registers >= _FEWEST
    return large and row is not None and row.polynomial is not None


def costs(graph: Graph, machine: Machine, overrides: Overrides = Overrides()) -> tuple[OperationCost, ...]:
    """The cost of every node, in the order of the graph."""
    return tuple(_costing(graph, machine, overrides).costs.values())


def extremes(graph: Graph, machine: Machine) -> tuple[Problem, Problem]:
    """The problem with a tensor core that never works, and with one that always does; the same where its MMAs
    are those of warps."""
    idle = _Costing(graph, machine, Overrides())
    busy = _Costing(graph, contention.under_contention(machine, 1.0), Overrides()) if idle.beside else idle
    return idle.problem(), busy.problem()


def _costing(graph: Graph, machine: Machine, overrides: Overrides) -> "_Costing":
    """How much the tensor core can work at best is found from the costs while it is idle."""
    idle = _Costing(graph, machine, overrides)
    operations = [made.operation for made in idle.costs.values()]
    busy = contention.load(operations, idle.beside, machine) if overrides.contention else 0.0
    return _Costing(graph, contention.under_contention(machine, busy), overrides) if busy else idle


class _Costing:
    """One graph on one machine."""

    def __init__(self, graph: Graph, machine: Machine, overrides: Overrides) -> None:
        self.graph, self.machine, self.overrides = graph, machine, overrides
        self._check_ids()
        self._check_width()
        self.values = {value.id: value for value in graph.values}
        self.taken = _taken_over(graph)
        self.charges = {node.id: self._charge(node) for node in graph.nodes}
        self.limits = self._limits()
        self.slots = self._slots()
        self.costs = {
            node.id: OperationCost(node, self.charges[node.id], self._operation(node)) for node in graph.nodes
        }

    def problem(self) -> Problem:
        values = (*self._values(), *self._temporaries(), *self._invariants())
        together = (value.group for value in self.graph.values if len(value.group) > 1)
        ordered = tuple((edge.src, edge.dst) for edge in self.graph.edges if self._orders_stores(edge))
        return Problem(
            name=self.graph.name,
            machine=self.machine.name,
            units=tuple(self.machine.units.values()),
            operations=tuple(p.operation for p in self.costs.values()),
            edges=tuple(self._edge(edge) for edge in self.graph.edges),
            values=values,
            limits=self.limits,
            source=self.graph.source,
            together=(*together, *ordered, *self._summed()),
        )

    def _summed(self) -> Iterator[tuple[str, ...]]:
        """Sums that are costed without exchanges between lanes: one group computes all of what is carried,
        or the lanes exchange in every iteration (`warp.deferred_reductions`)."""
        for node in self.graph.nodes:
            if node.partial:
                adding = {use.node for value in self.graph.made(node.id) for use in value.uses}
                carrying = {
                    use.node for one in adding for value in self.graph.made(one) for use in value.uses
                }
                yield tuple(sorted({node.id, *adding, *carrying}))

    def _orders_stores(self, edge: ir.Edge) -> bool:
        """Between stores to the same global memory: no barrier of a loop orders those of two groups. (Those
        of the next iteration have the same ends.)"""
        one, other = self.graph.node(edge.src), self.graph.node(edge.dst)
        lines = {node.location.line for node in (one, other) if node.location is not None}
        divided = len(lines) == 1  # sub-tiles have divided one store, whose order in itself is not defined
        stores = {one.kind, other.kind} <= {"store", "atomic"}
        return edge.kind == "waw" and not edge.distance and stores and not divided

    # --- checks --------------------------------------------------------------------------------------------

    @property
    def beside(self) -> frozenset[str]:
        """What is executed while its group goes on."""
        return frozenset(name for name, made in self.charges.items() if made.asynchronous)

    def _check_ids(self) -> None:
        known = [node.id for node in self.graph.nodes]
        for name in self.overrides.latency:
            if name not in known:
                near = get_close_matches(name, known, n=3)
                raise TwillError(
                    f"no operation {name!r} to give another latency to",
                    help=f"did you mean {', '.join(near)}?" if near else ", ".join(known),
                )

    def _check_width(self) -> None:
        if self.graph.warps not in (1, 4, 8):
            raise TwillError(
                f"the module is written for {self.graph.warps} warps; groups have 1, 4 or 8",
                self.graph.nodes[0].location if self.graph.nodes else None,
                help="compile the kernel with num_warps = 4 or 8",
            )

    # --- operations ----------------------------------------------------------------------------------------

    def _charge(self, node: Node) -> Charge:
        if node.kind == "branch":
            sides = zip((node.work, node.otherwise), node.seldom, strict=True)
            then, otherwise = ((() if seldom else work) for work, seldom in sides)
            made = branch(then, otherwise, self.machine)
        elif len(node.work) > 1:
            made = streamed(node.work, self.machine)
        else:
            made = charge(node.work[0], self.machine) if node.work else Charge({}, 0, 0, "nothing")
        latency = self.overrides.latency.get(node.id)
        return (
            made
            if latency is None
            else replace(made, latency=latency, formula=f"{made.formula}; latency set to {latency}")
        )

    def _operation(self, node: Node) -> Operation:
        made = self.charges[node.id]
        streaming = self._runs_ahead(node)
        given = node.id in self.overrides.latency
        return Operation(
            id=node.id,
            name=node.op,
            reservations=tuple(self._reservations(made)),
            latency=0 if streaming and not given else made.latency,
            issue=made.issue,
            warps=made.warps or (self.graph.warps if node.work else 1),
            variable=node.kind == "load",
            streaming=streaming,
            polynomial=max((work.polynomial for work in node.work), default=0),
            location=node.location,
        )

    def _reservations(self, made: Charge) -> Iterator[Reservation]:
        """Units taken exclusively first."""
        issue = self.machine.issue
        units = sorted(made.units.items(), key=lambda item: self.machine.units[item[0]].aggregate)
        for unit, cycles in units:
            if cycles:
                yield Reservation(unit, cycles, amount=issue.amount if issue and unit == issue.unit else 1)

    def _runs_ahead(self, node: Node) -> bool:
        return node.streaming and self.slots.get(node.id, 1) > 0

    # --- edges ---------------------------------------------------------------------------------------------

    def _edge(self, edge: ir.Edge) -> Edge:
        src, made = self.graph.node(edge.src), self.charges[edge.src]
        if self._runs_ahead(src) and edge.src not in self.overrides.latency and edge.kind != "war":
            return Edge(edge.src, edge.dst, 0, edge.distance, kind=edge.kind)
        delay, crossing = self._delays(edge, made)
        blocking = made.asynchronous and not edge.accumulates
        return Edge(
            edge.src,
            edge.dst,
            delay,
            edge.distance,
            crossing if crossing != delay else None,
            blocking,
            edge.kind,
        )

    def _delays(self, edge: ir.Edge, made: Charge) -> tuple[int, int]:
        """Within one group, and between two."""
        machine = self.machine
        if edge.kind == "war":
            delay = self._reading(edge.src)
            return delay, delay + self._signal(made)
        if edge.accumulates:
            return made.occupancy(machine), made.latency
        if self.graph.node(edge.src).kind == "scalar":
            return made.latency, made.latency
        delay = min(made.latency, self._chained(edge, made)) if edge.streams else made.latency
        return delay, made.latency + self._handover(edge, made)

    def _chained(self, edge: ir.Edge, made: Charge) -> int:
        """The consumer follows a chunk behind, and never overtakes: it must not have read all before the last
        chunk arrives."""
        stream, consumer = self.machine.stream, self.charges[edge.dst]
        reading = consumer.occupancy(self.machine) - consumer.finishing
        return max(stream.minimum, made.latency - reading + stream.slack)

    def _handover(self, edge: ir.Edge, made: Charge) -> int:
        """A register tile goes through shared memory; what lies in memory needs a barrier, which an
        asynchronous operation signals by itself."""
        value = self.values.get(edge.value or "")
        if value is not None and value.tile.place == "registers":
            return self.machine.handover.base + ceil(value.tile.bytes / self.machine.handover.bytes_per_cycle)
        return self._signal(made)

    def _signal(self, made: Charge) -> int:
        return 0 if made.asynchronous else self.machine.handover.barrier

    def _reading(self, id: str) -> int:
        """How long a reader needs its operands: an asynchronous one until it is known to be done, a store
        until it has passed them on."""
        made = self.charges[id]
        return made.latency if made.asynchronous and self.graph.node(id).kind != "store" else made.issue

    # --- values --------------------------------------------------------------------------------------------

    def _values(self) -> Iterator[Value]:
        for value in self.graph.values:
            tile, load = value.tile, self.graph.node(value.node).kind == "load"
            registers = min(tile.registers, self.machine.stream.chunk_registers) if load else tile.registers
            yield Value(
                id=value.id,
                src=value.node,
                uses=tuple(Use(use.node, use.distance, self._hold(use)) for use in value.uses),
                registers=registers,
                shared=tile.bytes if tile.place == "shared" else 0,
                tensor=tile.columns,
                staging=tile.bytes if tile.place == "registers" and not value.resident else 0,
                resident=value.resident,
                slots=self.slots.get(value.node, 0),
            )

    def _hold(self, use: ir.Use) -> int:
        return self._reading(use.node) if use.keeps or use.updates else 0

    def _temporaries(self) -> Iterator[Value]:
        """Room that an operation needs only while it runs."""
        for node in self.graph.nodes:
            made = self.charges[node.id]
            use = (Use(node.id, 0, made.latency),)
            moved = max(
                (t.bytes for w in node.work for t in (*w.inputs, *w.outputs) if t.place == "registers"),
                default=0,
            )
            if made.staging and moved:
                yield Value(f"{node.id}.staging", node.id, use, shared=min(made.staging, moved))
            if node.kind == "tensor_update":
                yield Value(f"{node.id}.chunk", node.id, use, registers=self.machine.stream.chunk_registers)
            if (rest := self._rest(node)) > 0:
                yield Value(f"{node.id}.rest", node.id, (Use(node.id, 0, made.issue),), registers=rest)

    def _rest(self, node: Node) -> int:
        """Registers of an operand that a smaller result, growing into its place, does not need, but that are
        free only in the end."""
        made = sum(v.tile.registers for v in self.graph.made(node.id))
        return self.taken.get(node.id, 0) - made if node.kind == "elementwise" else 0

    def _invariants(self) -> Iterator[Value]:
        """Register tiles from before the loop, held by the groups that read them."""
        for held in self.graph.invariants:
            if held.tile.place == "registers":
                first, *others = held.users
                yield Value(
                    held.id,
                    first,
                    tuple(Use(user) for user in others),
                    registers=held.tile.registers,
                    resident=True,
                )

    # --- limits --------------------------------------------------------------------------------------------

    def _limits(self) -> Limits:
        own, given = self.machine.limits, self.overrides
        shared = own.shared if given.shared is None else given.shared
        tensor = own.tensor if given.tensor is None else given.tensor
        return replace(
            own,
            groups=own.groups if given.groups is None else given.groups,
            registers_per_thread=own.registers_per_thread if given.registers is None else given.registers,
            shared=max(
                0, shared - sum(i.tile.bytes for i in self.graph.invariants if i.tile.place == "shared")
            ),
            tensor=max(0, tensor - sum(i.tile.columns for i in self.graph.invariants)),
        )

    def _slots(self) -> dict[str, int]:
        """How far each load may run ahead: as given, or less for the largest tiles where shared memory would
        not hold one of each."""
        wanted = self.machine.loads.prefetch if self.overrides.prefetch is None else self.overrides.prefetch
        loads = [v for v in self.graph.values if self.graph.node(v.node).streaming]
        slots = {v.node: wanted for v in loads}
        spare = self.limits.shared - sum(v.tile.bytes for v in self.graph.values if v.tile.place == "shared")
        spare -= sum(v.shared for v in self._temporaries())
        order = sorted(enumerate(loads), key=lambda item: (-item[1].tile.bytes, -item[0]))
        slots = fitting(slots, [(load.node, load.tile.bytes) for _, load in order], spare)
        return slots | {node: count for node, count in self.overrides.ahead.items() if node in slots}


def fitting(ahead: Mapping[str, int], sizes: Sequence[tuple[str, int]], room: int) -> dict[str, int]:
    """How many iterations each load runs ahead where all tiles together, given with their loads, have so many
    bytes: the first of them gives way first."""
    left = dict(ahead)
    for load, _ in sizes:
        while left[load] and room < sum(left[one] * size for one, size in sizes):
            left[load] -= 1
    return left


def _taken_over(graph: Graph) -> dict[str, int]:
    """Registers of the largest operand into whose place a node's result grows."""
    found: dict[str, int] = {}
    for value in graph.values:
        for use in value.uses:
            if not use.keeps and not use.updates:
                found[use.node] = max(found.get(use.node, 0), value.tile.registers)
    return found
