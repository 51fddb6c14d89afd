"""One recipe for each kind of statement of a warp program.

Takes a `Program`, a group and a statement; gives lines of C++. Every statement begins with a comment: its
cycle, its stage and the TTGIR line of its operation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol, assert_never

from twill.ir.channels import Buffer, Channel, DependenceBarrier, SlotTensor
from twill.ir.effects import at, effects
from twill.ir.loop import Op, Scalar, Tensor, TensorDesc, Value
from twill.ir.operands import At, Iteration, Read, Register, Slot, Write
from twill.ir.program import Program, WarpProgram
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
    TileLoad,
    While,
    inner,
    walk,
)
from twill.ops.c import c_type
from twill.ops.table import role
from twill.targets.cuda.copies import Analysis, Hoisted, copies, hoisted
from twill.targets.cuda.copies import copied as copied_in_loop
from twill.targets.cuda.elements import iteration, refuse, sequence, variable, written
from twill.targets.cuda.exchange import WHOLE, ColumnRange, exchanged, shared_between
from twill.targets.cuda.expressions import atom, bare, literal, plus, times
from twill.targets.cuda.float_pairs import fused
from twill.targets.cuda.fragments import holding, linear
from twill.targets.cuda.linear_tiles import Spread
from twill.targets.cuda.local_channels import reused_behind_a_wait
from twill.targets.cuda.names import c_name, count, tensor_map
from twill.targets.cuda.names import channel as channel_name
from twill.targets.cuda.operations import execute, write_tile
from twill.targets.cuda.positions import NOTHING_KEPT, Positions, kept
from twill.targets.cuda.register_tiles import Held, Point, held, packed
from twill.targets.cuda.scope import Scope, equal_loads
from twill.targets.cuda.shared_tiles import Shared, boxed, copied, copy, filling_text, picked, shared, stored
from twill.targets.cuda.tensor_memory import leaves, row_groups
from twill.targets.cuda.tiled_corners import NOTHING_FIXED, FixedCorner, fixed_corner
from twill.targets.cuda.tiled_loads import TiledLoad
from twill.warp.dataflow import into_shared
from twill.warp.thread_block import COPYING

DRAIN = "drain_"
"""The mbarrier, with the number of its group, on which all MMAs of a group arrive."""
READY = "ready_"
"""The mbarrier on which the same group of the second thread block of a pair arrives."""
CLAIMED = "claims"
"""What cluster launch control says."""
PAIR_RANK, FIRST = "pair_rank", "pair_rank == 0"
"""Which block of a pair it is."""
ISSUER = "if (thread.warp == 0)"
"""The warp of a group that issues its MMAs."""
TENSOR_MEMORY_SYNC = "tensor_memory_sync"
"""The named barrier of the groups that use tensor memory."""
STORES_READ = "if (thread.leader) tma_wait_read<0>();"
"""The stores of a group have read shared memory; its leader started them."""
REDUCTIONS = {"None": "tma_store", "add": "tma_add"}
"""How a tile leaves, by the kind of reduction."""
REMATERIALIZED = ("thread.lane", "thread.index", "thread.row", "thread.column")
"""What `ThreadCoordinates::rematerialize` of the runtime computes. A loop that uses none of it omits the
call: computing the lane again delays every arrival."""


class MmaPrinter(Protocol):
    """How a target prints the statements of its tensor core, for one group; it keeps track of the MMAs in
    flight."""

    def issue(self, emitter: "Emitter", statement: MmaIssue) -> list[str]:
        """Raises TwillError for an MMA that the tensor core does not have."""
        ...

    def wait(self, pending: int) -> list[str]: ...

    def restart(self) -> None:
        """What is printed next follows code with no MMA in flight."""
        ...


@dataclass(slots=True)
class Emitter:
    """The statements of one group; `mma` and `inductions` change as the text goes on."""

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
    predicated: bool = False
    """In that part iterations may not exist."""
    positions: Positions = NOTHING_KEPT
    """What that part keeps of channels."""
    float_pairs: bool = False
    """One instruction computes two float32 elements."""

    def scope(
        self,
        reads: Iterable[Read] = (),
        writes: Iterable[Write] = (),
        at: At | None = None,
        span: ColumnRange = WHOLE,
        ops: Sequence[int] = (),
    ) -> Scope:
        """Results go straight to their variables where these are not read by the same statement."""
        reads = tuple(reads)
        read = {read.location.variable for read in reads if isinstance(read.location, Register)}
        writes = tuple(writes)
        written_here = {write.value for write in writes}
        targets = {
            write.value: variable(write.register) for write in writes if write.register.variable not in read
        }
        scope = Scope(self.program, self.group, {}, targets, span=span, positions=self.positions)
        scope.float_pairs = self.float_pairs
        if self.float_pairs:
            scope.fused = fused([self.program.op(index) for index in ops], frozenset(written_here))
        for value, induction in (self.inductions or {}).items():
            scope.values[value] = induction(iteration(at.iteration) if at else "i")
        scope.bind(reads, map(self.program.op, ops))
        return scope

    def all(self, statements: Sequence[Statement]) -> list[str]:
        return [line for statement in statements for line in self.one(statement)]

    def one(self, statement: Statement) -> list[str]:
        match statement:
            case Compute():
                return self._compute(statement)
            case InitializeCarried(value, source, register):
                return self._copy(statement, value, Read(value, source) if source else None, register)
            case Move(name, age):
                return self._move(name, age)
            case FinalizeReduction(register, op):
                return self._finalize(register, self.program.op(op))
            case SchedulingFence(registers):
                return [f"scheduling_fence(opaque, {', '.join(map(variable, registers))});"]
            case MmaIssue():
                return self.mma.issue(self, statement)
            case MmaWait(pending):
                return self.mma.wait(pending)
            case ProducerLoad():
                return self._producer_load(statement)
            case ProducerStore():
                return self._producer_store(statement)
            case ConsumerWait(channel, at):
                return self._consumer_wait(channel, at)
            case ConsumerRelease(channel, at):
                return self._consumer_release(channel, at)
            case Advance(channel, loop):
                return [f"{count(channel)} += {'1' if loop is None else trips(self.program, loop)};"]
            case OrderBarrierWait(order):
                return [f"named_barrier_sync({order}, {self.threads(order)});"]
            case OrderBarrierArrive(order):
                return [f"named_barrier_arrive({order}, {self.threads(order)});"]
            case BarrierArrive(barrier, at):
                return self._barrier_arrive(barrier, at)
            case BarrierWait():
                return self._dependence_wait(statement)
            case TensorMemorySync():
                return self._tensor_memory_sync()
            case StoreTile():
                return self._store(statement)
            case StoreWait():
                return [STORES_READ, self.scope().group_barrier()]
            case Pipelined() | For() | While() | If() | Alternate():
                return self._structure(statement)
            case _:
                assert_never(statement)

    def _barrier_arrive(self, barrier: str, at: At) -> list[str]:
        if self._dependence(barrier).by == "mma":
            return self._mmas_complete(barrier, at)
        arrive = "arrive_at_first" if pair_waits(self.program, barrier) else "arrive"
        return [f"{barrier}.{arrive}({sequence(barrier, at.iteration)});"]

    def _structure(self, statement: Pipelined | For | While | If | Alternate) -> list[str]:
        match statement:
            case Pipelined():
                return self._pipelined(statement)
            case For(op, body, bounds):
                return self._for(self.program.op(op), body, bounds)
            case While(op, before, condition, body):
                return self._while(self.program.op(op), before, condition, body)
            case If(op, condition, then, otherwise):
                return self._if(self.program.op(op), condition, then, otherwise)
            case Alternate():
                return self._alternate(statement)

    # --- computing -----------------------------------------------------------------------------------------

    def comment(self, at: At, ops: Sequence[int], name: str) -> str:
        where = f"cycle {at.cycle}, stage {at.stage}: " if at.cycle is not None else ""
        return f"// {where}{name} ({self.program.op(ops[-1]).location})"

    def _compute(self, it: Compute) -> list[str]:
        scope = self.scope(it.reads, it.writes, it.at, (it.begin, it.end), it.ops)
        scope.deferred = it.deferred
        scope.streaming = bool(it.stores) and not it.writes
        for index in it.ops:
            execute(scope, self.program.op(index))
        scope.assign(it.writes)
        return [self.comment(it.at, it.ops, it.node), "{", *indented(scope.lines), "}"]

    def _finalize(self, register: Register, op: Op) -> list[str]:
        source, scope = op.operands[0].type, self.scope()
        assert isinstance(source, Tensor)
        form, name, result = holding(source), variable(register), op.results[0].type
        if isinstance(form, Spread):
            assert isinstance(result, Tensor)
            vector = holding(result)
            assert isinstance(vector, Spread)
            return shared_between(op, name, form, vector, scope.scratch, scope.group_barrier())
        return exchanged(op, name, form, "", "")

    def _copy(self, it: InitializeCarried, value: int, read: Read | None, register: Register) -> list[str]:
        scope = self.scope([read] if read else [], at=it.at)
        found = next(
            v for op in self.program.function.walk() for v in (*op.operands, *op.results) if v.id == value
        )
        if isinstance(found.type, Tensor):
            return written(found.type, variable(register), scope.elements(found))
        return [f"{variable(register)} = {scope.scalar(found)};"]

    def _move(self, name: str, age: int) -> list[str]:
        new, old = variable(Register(name, age)), variable(Register(name, age - 1))
        kind = self.group.variable(name).type
        if not isinstance(kind, Tensor):
            return [f"{new} = {old};"]
        return written(kind, new, held(old, kind))

    # --- channels ------------------------------------------------------------------------------------------

    def _producer_load(self, it: ProducerLoad) -> list[str]:
        n = sequence(it.channel, it.at.iteration)
        if self.program.channel(it.channel).filled_by == "cp_async":
            return self._copied(it, n)
        lines = [line for load in it.loads for line in self._tile(it, load)]
        inside = self._inside(it)
        tensors = self.program.channel(it.channel).tensors
        expected = it.bytes or sum(tensors[load.tensor].bytes for load in it.loads)
        expect = f"mbarrier_arrive_expect({channel_name(it.channel)}.full({n}), {expected});"
        if self._of_pair(it.channel):
            expect = f"if ({FIRST}) {expect.replace(str(expected), str(2 * expected))}"
        head = self.comment(it.at, it.loads[-1].ops, f"load {it.channel}")
        start = ["if (thread.leader) {", *indented([expect, *lines]), "}"]
        acquire = f"{channel_name(it.channel)}.producer_acquire({n});"
        if not inside:
            return [head, acquire, *start]
        copied = [line for load in it.loads for line in self._copies(it, load, n)]
        copied += ["cp_async_wait();", "fence_async_shared();", "__syncwarp();"]
        copied.append(f"if (thread.leader) mbarrier_arrive({channel_name(it.channel)}.full({n}));")
        other = ["} else {", *indented(copied), "}"]
        chosen = ["bool inside_ = true;", *inside, "if (inside_) {", *indented(start), *other]
        return [head, acquire, "{", *indented(chosen), "}"]

    def _inside(self, it: ProducerLoad) -> list[str]:
        """Whether all tiles of a slot are such as tensor maps describe; nothing where they always are."""
        lines = list[str]()
        for load in it.loads:
            own = self.tiled.get(load.ops[-1])
            if own is None or not own.inside:
                continue
            scope = self.scope(load.reads, at=it.at)
            fixed = self.corners.get(load.ops[-1], NOTHING_FIXED)
            holds = [f"{fixed.text(scope, one)} >= {many}" for one, many in own.inside]
            lines += ["{", *indented([*scope.lines, f"inside_ = inside_ && {' && '.join(holds)};"]), "}"]
        return lines

    def _corner(self, scope: Scope, load: TiledLoad) -> list[str]:
        """Of a tile in the tensor map of a pointer load: coordinates, outermost first."""
        fixed = self.corners.get(load.op, NOTHING_FIXED)
        return [f"int32_t({fixed.text(scope, one.coordinate)})" for one in reversed(load.dimensions)]

    def _computed(self, it: ProducerLoad, load: TileLoad) -> Scope:
        """A scope in which all that a load needs is computed."""
        scope = self.scope(load.reads, at=it.at)
        for index in load.ops[:-1]:
            execute(scope, self.program.op(index))
        return scope

    def _tile(self, it: ProducerLoad, load: TileLoad) -> list[str]:
        op = self.program.op(load.ops[-1])
        tensor = self.program.channel(it.channel).tensors[load.tensor]
        n = sequence(it.channel, it.at.iteration)
        own = self.tiled.get(op.index)
        scope = self.scope(load.reads, at=it.at) if own else self._computed(it, load)
        if role(op) == "pointer_load" and own is None:
            return self._bulk(it, scope, op, tensor)
        corner = self._corner(scope, own) if own else [scope.scalar(value) for value in op.operands[1:]]
        if tensor.halved is not None:
            half = times(PAIR_RANK, tensor.part[tensor.halved])
            corner[tensor.halved] = f"{atom(corner[tensor.halved])} + {half}"
        name = f"&{tensor_map(self.program.name(op.result.id))}" if own else map_pointer(scope, op)
        try:
            address = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
            tile = boxed(address, tensor.part, tensor.dtype, tensor.encoding)
        except ValueError as problem:
            raise refuse(self.program, op, f"{op.result.name} {problem}") from problem
        for box in range(tile.boxes):
            at = _coordinates(corner, box * tile.width * 8 // tile.bits)
            into, full = plus(tile.address, box * tile.box), f"{channel_name(it.channel)}.full({n})"
            load_box = "tma_load"
            if self._of_pair(it.channel):
                load_box, full = "tma_load_pair", f"of_first({full})"
            scope.lines.append(f"{load_box}({into}, {name}, {full}, {at});")
        return ["{", *indented(scope.lines), "}"]

    def _bulk(self, it: ProducerLoad, scope: Scope, op: Op, tensor: SlotTensor) -> list[str]:
        """A vector by one bulk copy, from where its first pointer points."""
        assert isinstance(op.result.type, Tensor)
        channel, n = channel_name(it.channel), sequence(it.channel, it.at.iteration)
        first = Point(linear(op.result.type, 32 * self.group.warps), "0", ("0", "0"))
        pointer = bare(scope.elements(op.operands[0])(first))
        into = plus(f"{channel}.slot({n})", tensor.offset)
        scope.lines.append(f"bulk_load({into}, {pointer}, {tensor.bytes}, {channel}.full({n}));")
        return ["{", *indented(scope.lines), "}"]

    def _copied(self, it: ProducerLoad, n: str) -> list[str]:
        """Asynchronous copies by every thread of the group."""
        head = [
            self.comment(it.at, it.loads[-1].ops, f"copy {it.channel}"),
            f"{channel_name(it.channel)}.producer_acquire({n});",
        ]
        lines = [line for load in it.loads for line in self._copies(it, load, n)]
        return [*head, *lines, f"{channel_name(it.channel)}.producer_commit({n});"]

    def _copies(self, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
        scope = self.scope(load.reads, at=it.at)
        op, tensor = self.program.op(load.ops[-1]), self.program.channel(it.channel).tensors[load.tensor]
        for index in load.ops[:-1]:
            execute(scope, self.program.op(index))
        slot = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
        if self._equal(op, tensor):
            return ["{", *indented([*scope.lines, self._first_copy(scope, op, load.vector, slot)]), "}"]
        if (kept := self.kept.get(op.index)) is not None:
            return ["{", *indented([*scope.lines, *copied_in_loop(scope, op, kept, slot)]), "}"]
        if not isinstance(op.result.type, Tensor):
            return ["{", *indented([*scope.lines, _number_copied(scope, op, load.vector, slot)]), "}"]
        pointers, mask = (
            scope.elements(op.operands[0]),
            scope.elements(op.operands[1]) if len(op.operands) > 1 else None,
        )
        try:
            form = linear(op.result.type, 32 * self.group.warps)
            other = filling_text(self.program.function, op)
            lines = copied(slot, tensor, load.vector, form, pointers, mask, other)
        except ValueError as problem:
            raise refuse(self.program, op, str(problem)) from problem
        return ["{", *indented([*scope.lines, *lines]), "}"]

    def _equal(self, op: Op, tensor: SlotTensor) -> bool:
        """Whether readers take a tile of equal numbers from its first element alone."""
        return tensor.encoding is None and op.result.id in equal_loads(self.program.function)

    def _first_copy(self, scope: Scope, op: Op, vector: int, slot: str) -> str:
        """The copy of the first elements of a tile, by one thread."""
        assert isinstance(op.result.type, Tensor)
        first = Point(linear(op.result.type, 32 * self.group.warps), "0", ("0", "0"))
        pointer, *mask = (scope.elements(value)(first) for value in op.operands[:2])
        return f"if (thread.index == 0) {copy(vector, slot, pointer, ''.join(mask), '')}"

    def _hoisted(self, it: Pipelined) -> list[str]:
        """Before a loop: what its copies keep. Only a warpgroup that does nothing but move data has
        registers for that."""
        self.kept, self.corners = {}, {}
        inside = frozenset(op.index for op in self.program.op(it.op).inner())
        tiled = self._fixed_corners(it, inside)
        if not self.group.only_moves or self.group.warps < 4:
            return tiled
        room, lines = self.group.registers - COPYING, tiled
        for one in walk((it,)):
            for load in one.loads if isinstance(one, ProducerLoad) else ():
                tile = isinstance(self.program.op(load.ops[-1]).result.type, Tensor)
                if load.vector and tile and load.ops[-1] not in (*self.kept, *self.tiled):
                    assert isinstance(one, ProducerLoad)
                    found = self._kept(one, load, inside, room)
                    if found is not None:
                        self.kept[load.ops[-1]] = found
                        room, lines = room - found.registers, [*lines, *found.lines]
        return lines

    def _fixed_corners(self, it: Pipelined, inside: frozenset[int]) -> list[str]:
        """What of the coordinates of loads by TMA is the same in every iteration."""
        block = self.program.op(it.op).regions[0].blocks[0]
        results = (value.id for index in inside for value in self.program.op(index).results)
        moving = frozenset([*(arg.id for arg in block.args), *results])
        lines = list[str]()
        filled = [one for one in walk((it,)) if isinstance(one, ProducerLoad)]
        for one in filled:
            for load in one.loads:
                index = load.ops[-1]
                if index in self.tiled and index not in self.corners:
                    scope = self.scope(load.reads, at=one.at)
                    self.corners[index] = fixed_corner(scope, self.tiled[index], moving)
                    lines += self.corners[index].lines(scope)
        return lines

    def _kept(self, it: ProducerLoad, load: TileLoad, inside: frozenset[int], room: int) -> Hoisted | None:
        op, tensor = self.program.op(load.ops[-1]), self.program.channel(it.channel).tensors[load.tensor]
        assert isinstance(op.result.type, Tensor)
        if self._equal(op, tensor):
            return None
        try:
            found = copies(tensor, load.vector, linear(op.result.type, 32 * self.group.warps))
        except ValueError as problem:
            raise refuse(self.program, op, str(problem)) from problem
        if found is None:
            return None
        before, scope = self.scope(load.reads, at=it.at), self.scope(load.reads, at=it.at)
        analysis = Analysis(before, inside)
        for index in load.ops[:-1]:
            one = self.program.op(index)
            execute(scope, one)
            if all(map(analysis.invariant, one.results)):
                execute(before, one)
        return hoisted(scope, before.lines, op, found, inside, room)

    def _producer_store(self, it: ProducerStore) -> list[str]:
        n, scope = sequence(it.channel, it.at.iteration), self.scope(it.reads, at=it.at, ops=it.ops)
        ops, channel = [self.program.op(index) for index in it.ops], self.program.channel(it.channel)
        tiles = zip(it.values, channel.tensors, strict=True)
        relaid = into_shared(ops, [value for value, tensor in tiles if tensor.encoding is not None])
        for op in ops:
            if op.index in relaid:
                scope.values[op.result.id] = scope.in_registers(op.operands[0])
            else:
                execute(scope, op)
        for value, tensor in zip(it.values, channel.tensors, strict=True):
            address = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
            try:
                write_tile(scope, value, tensor, channel, address)
            except ValueError as problem:
                raise refuse(self.program, self.program.op(it.ops[-1]), str(problem)) from problem
        when = "" if it.at.cycle is None else f"cycle {it.at.cycle}, stage {it.at.stage}: "
        head = f"// {when}store {it.node} to {it.channel}"
        acquire, commit = self._producing(self.program.channel(it.channel), n)
        return [head, *acquire, "{", *indented(scope.lines), "}", "fence_async_shared();", *commit]

    def _producing(self, channel: Channel, n: str) -> tuple[list[str], list[str]]:
        """What stands before and after the writes of threads to slot n."""
        if not channel.local:
            name = channel_name(channel.id)
            return [f"{name}.producer_acquire({n});"], [f"{name}.producer_commit({n});"]
        return ([] if reused_behind_a_wait(self.group, channel) else [self.scope().group_barrier()]), []

    def _consumer_wait(self, channel: str, at: At) -> list[str]:
        """Copies write through the generic proxy, as threads do; the tensor core reads through the
        asynchronous one. Of a local channel, all threads have written behind a group barrier."""
        one = self.program.channel(channel)
        if one.local:
            return [self.scope().group_barrier()]
        fenced = one.filled_by == "cp_async" and self._read_by_mmas(channel)
        wait = f"{channel_name(channel)}.consumer_wait({self.positions.of(channel, at.iteration)});"
        lines = [wait, "fence_async_shared();"] if fenced else [wait]
        if self._of_pair(channel):
            only = f"{FIRST} && thread.warp == 0" if self.group.warps > 1 else FIRST
            return [f"if ({only}) {wait}"]
        if self.group.warps > 1 and one.only_mma(self.group.id):
            return ["if (thread.warp == 0) {", *indented(lines), "}"] if fenced else [f"{ISSUER} {wait}"]
        return lines

    def _read_by_mmas(self, channel: str) -> bool:
        """Whether an MMA of this group reads slots of a channel where they lie."""
        issued = (one for one in walk(self.group.body) if isinstance(one, MmaIssue))
        read = (location for one in issued for location in effects(one).reads)
        return any(isinstance(location, Slot) and location.channel == channel for location in read)

    def _consumer_release(self, channel: str, at: At) -> list[str]:
        if self.program.channel(channel).local:
            return []
        text = f"{channel_name(channel)}.consumer_release({self.positions.of(channel, at.iteration)});"
        conditions = self._exists(at.iteration)
        return [f"if ({' && '.join(conditions)}) {text}" if conditions else text]

    def threads(self, order: str) -> int:
        """Of the two groups of an ordering barrier."""
        one = next(one for one in self.program.orders if one.id == order)
        return sum(
            32 * group.warps for group in self.program.groups if group.id in (one.signaller, one.waiter)
        )

    # --- tensor memory -------------------------------------------------------------------------------------

    def _dependence(self, barrier: str) -> DependenceBarrier:
        return next(one for one in self.program.dependences if one.id == barrier)

    def _mmas_complete(self, barrier: str, at: At) -> list[str]:
        """All MMAs of this group arrive when they are complete."""
        number, both = sequence(barrier, at.iteration), "_pair" if self.program.pairs else ""
        only = [*([FIRST] if both else []), *(["thread.warp == 0"] if self.group.warps > 1 else [])]
        condition = " && ".join([*only, "elect_one()"])
        return [f"if ({condition}) {barrier}.completed{both}({number});", "__syncwarp();"]

    def _dependence_wait(self, it: BarrierWait) -> list[str]:
        """For an iteration that there is."""
        only = ["thread.warp == 0"] if it.issuer and self.group.warps > 1 else []
        only += [FIRST] if it.issuer and self.program.pairs else []
        number, conditions = sequence(it.barrier, it.awaited), [*self._exists(it.awaited), *only]
        if self.predicated and it.awaited.offset < it.at.iteration.offset:
            conditions = [f"i >= {it.awaited.offset}"] * (it.awaited.offset > 0) + only
            number = f"{count(it.barrier)} + min({iteration(it.awaited)}, n - 1)"
        wait = "wait_of_pair" if pair_waits(self.program, it.barrier) else "wait"
        text = f"{it.barrier}.{wait}({number});"
        return [f"if ({' && '.join(conditions)}) {text}" if conditions else text]

    def _exists(self, when: Iteration) -> list[str]:
        """The condition that there is an iteration, in a part of a loop where at least `least` have begun."""
        if self.predicated:
            return [f"uint32_t({iteration(when)}) < uint32_t(n)"]
        match when.base:
            case "once":
                return []
            case "newest":
                return [f"i >= {when.offset}"] if when.offset > self.least else []
            case "first" | "last":
                return [f"n > {when.offset}"] if when.offset >= self.least else []

    def _tensor_memory_sync(self) -> list[str]:
        """The MMAs of this group are complete, then the groups synchronize. Without tensor memory, what the
        group has written is complete, and what follows sees it, by TMA too."""
        lines = list[str]()
        if not self.program.tensor_memory:
            stores = any(isinstance(one, StoreTile) for one in walk(self.group.body))
            wait = ["if (thread.leader) tma_wait<0>();"] if stores else []
            threads = sum(32 * group.warps for group in self.program.groups)
            sync = f"named_barrier_sync({TENSOR_MEMORY_SYNC}, {threads});"
            return [*wait, "__threadfence();", sync, "fence_async();"]
        if issues(self.group):
            commit = f"if (elect_one()) tcgen05_commit({DRAIN}{self.group.id});"
            if self.program.pairs:
                commit = f"if ({FIRST} && elect_one()) tcgen05_commit_pair({DRAIN}{self.group.id}, 3);"
            waited = ["__syncwarp();", f"mbarrier_wait({DRAIN}{self.group.id}, drained % 2);"]
            lines = [commit, *waited, "++drained;", "tcgen05_fence_after();"]
            if self.group.warps > 1:
                lines = ["if (thread.warp == 0) {", *indented(lines), "}"]
        threads = sum(
            32 * group.warps for group in self.program.groups if group.id in self.program.synchronized
        )
        sync = f"named_barrier_sync({TENSOR_MEMORY_SYNC}, {threads});"
        return [*lines, "tcgen05_fence_before();", sync, "tcgen05_fence_after();", *self._pair_sync()]

    def _pair_sync(self) -> list[str]:
        """The MMAs of a pair that follow come after what the groups of the second block have done."""
        if not self.program.pairs or not issues(self.group):
            return []
        arrive = [
            "tcgen05_fence_before();",
            f"if (elect_one()) mbarrier_arrive_at(of_first({READY}{self.group.id}));",
        ]
        wait = [
            f"mbarrier_wait_cluster({READY}{self.group.id}, (drained - 1) % 2);",
            "tcgen05_fence_after();",
        ]
        lines = [f"if ({FIRST}) {{", *indented(wait), "} else {", *indented([*arrive, "__syncwarp();"]), "}"]
        return ["if (thread.warp == 0) {", *indented(lines), "}"] if self.group.warps > 1 else lines

    def _of_pair(self, channel: str) -> bool:
        """Whether a channel is full when both thread blocks of a pair have their tiles."""
        return self.program.pairs and bool(self.program.channel(channel).by_mma)

    # --- results -------------------------------------------------------------------------------------------

    def _store(self, it: StoreTile) -> list[str]:
        if not it.staged:
            return self._store_from_slot(it)
        op = self.program.op(it.ops[-1])
        scope = self.scope(it.reads, at=it.at)
        for index in it.ops[:-1]:
            before = self.program.op(index)
            if role(before) == "layout" and _leaves(before.operands[0]):
                scope.values[before.result.id] = scope.form(before.operands[0])
            else:
                execute(scope, before)
        value = next(value for value in op.operands if isinstance(value.type, Tensor))
        assert isinstance(value.type, Tensor)
        form = scope.elements(value)
        words = (
            form if isinstance(form, Held) and form.pack == packed(value.type) else scope.kept(value, form)
        )
        assert isinstance(words, Held)
        buffer = next(buffer for buffer in self.program.buffers if buffer.id == it.buffer)
        corner = [scope.scalar(value) for value in op.operands[1:] if not isinstance(value.type, Tensor)]
        for part in range(it.parts):
            scope.lines += self._staging_free(buffer, waits=it.waits or part > 0)
            scope.lines += self._leave(scope, op, words, it.parts, buffer.offset, part, corner)
        return [self.comment(it.at, it.ops, "store"), "{", *indented(scope.lines), "}"]

    def _store_from_slot(self, it: StoreTile) -> list[str]:
        """A store that starts from the slot of a channel."""
        op = self.program.op(it.ops[-1])
        (read,) = (read for read in it.reads if isinstance(read.location, Slot))
        scope = self.scope((other for other in it.reads if other is not read), at=it.at)
        for index in it.ops[:-1]:
            execute(scope, self.program.op(index))
        corner = [scope.scalar(value) for value in op.operands[1:] if value.id != read.value]
        assert isinstance(read.location, Slot)
        scope.lines += self._boxes(scope, op, scope.operand(read, read.location), corner)
        return [self.comment(it.at, it.ops, "store"), "{", *indented(scope.lines), "}"]

    def _boxes(
        self,
        scope: Scope,
        op: Op,
        tile: Shared,
        corner: list[str],
        column: Callable[[int], int] = lambda column: column,
    ) -> list[str]:
        """Stores of the boxes of a tile in shared memory; `column` is where a column of it goes."""
        word = REDUCTIONS.get(str(op.attributes.get("kind")))
        if word is None:
            raise refuse(self.program, op, f"a reduction {op.attributes['kind']} can not be generated")
        boxes = list[str]()
        for box in range(tile.boxes):
            at = _coordinates(corner, column(box * tile.width * 8 // tile.bits))
            boxes.append(f"    {word}({map_pointer(scope, op)}, {plus(tile.address, box * tile.box)}, {at});")
        return ["if (thread.leader) {", *boxes, "    tma_commit();", "}"]

    def _staging_free(self, buffer: Buffer, *, waits: bool) -> list[str]:
        """Before a buffer is written: earlier stores have read it, and all warps are done with the channel
        that it overlays."""
        wait = [STORES_READ] if waits else []
        return [*wait, self.scope().group_barrier()] if waits or buffer.overlays else []

    def _leave(
        self,
        scope: Scope,
        op: Op,
        words: Held,
        parts: int,
        offset: int,
        part: int,
        corner: list[str],
    ) -> list[str]:
        """One part of a tile: registers to shared memory, then to global memory."""
        kind = op.operands[0].type
        assert isinstance(kind, TensorDesc)
        columns = kind.shape[-1] // parts
        try:
            tile = shared(plus("memory", offset), (*kind.shape[:-1], columns), kind.dtype, kind.encoding)
        except ValueError as problem:
            raise refuse(self.program, op, f"a tile {problem}") from problem
        try:
            piece = columns // _across(words)
            filled = stored(words, tile, part * piece)
        except ValueError:
            piece, filled = columns, picked(words, tile, part, c_type(op.operands[1].type))

        def column(inside: int) -> int:
            group, rest = divmod(inside, piece)
            return (group * parts + part) * piece + rest

        start = self._boxes(scope, op, tile, corner, column)
        return [*filled, "fence_async_shared();", self.scope().group_barrier(), *start]

    # --- structure -----------------------------------------------------------------------------------------

    def _bounds(self, op: Op, reads: Sequence[Read]) -> tuple[str, str, str]:
        scope = self.scope(reads)
        lower, upper, step = (scope.scalar(value) for value in op.operands[:3])
        return lower, upper, step

    def _pipelined(self, it: Pipelined) -> list[str]:
        op = self.program.op(it.op)
        lower, upper, step = self._bounds(op, it.bounds)
        self.inductions = {
            **(self.inductions or {}),
            op.regions[0].blocks[0].args[0].id: lambda i: atom(plus(lower, times(i, step))),
        }
        self.least, name = it.stages - 1, trips(self.program, it.op)
        none = "int64_t(0)" if op.operands[0].type in (Scalar("i64"), Scalar("index")) else "0"
        counted = f"{name} = max({none}, {_span(lower, upper, step)});"
        if not any(inner(it)) and not it.zeroed:
            return [counted]
        lines = [
            f"// {it.path}: {it.stages} stages, an iteration every {it.interval} cycles",
            f"const int32_t n = {name};",
        ]
        lines += self._hoisted(it)
        whole = [*self.all(it.prologue), *self._steady(it), *self.all(it.epilogue)]
        self.mma.restart()
        least, self.least = self.least, 0
        short = self._predicated(it) if it.predicated else self.all(it.short)
        lines += [f"if (n >= {least}) {{", *indented(whole)] if least else whole
        count = f"n + {least}" if it.predicated else "n"
        if short:  # rows of tensor memory have many columns in a thread: their indices are not kept
            short = [*(self._rematerialized(short) if self.program.tensor_memory else []), *short]
            loop = [f"for (int32_t i = 0; i < {count}; ++i) {{", *indented(short), "}"]
            lines += ["} else {", *indented(loop)]
        lines += ["}"] if least else []
        if it.zeroed:
            lines += ["if (n == 0) {", *indented(self.all(it.zeroed)), "}"]
        return [counted, "{", *indented(lines), "}"]

    def _steady(self, it: Pipelined) -> list[str]:
        """The loop that runs the steady state, where this group has any."""
        self.positions = kept(self.program, it.steady, self.least)
        self._settle(it.steady)
        steady = self.all(it.steady)
        body = [*self._rematerialized(steady), *steady, *self.positions.advance()]
        head = [*self.positions.start(self.least), f"for (int32_t i = {self.least}; i < n; ++i) {{"]
        self.positions = NOTHING_KEPT
        return [*head, *indented(body), "}"] if steady else []

    def _rematerialized(self, body: Sequence[str]) -> list[str]:
        """At the beginning of a loop's body: the thread's coordinates, where it uses them."""
        wide = self.group.warps >= 4 and not self.group.only_moves
        used = any(member in line for line in body for member in REMATERIALIZED)
        return ["thread.rematerialize();"] if wide and used else []

    def _predicated(self, it: Pipelined) -> list[str]:
        """The steady state, each statement only for iterations that there are."""
        self.predicated, lines = True, list[str]()
        for condition, statements in groupby(it.short, self._condition):
            own = self.all(tuple(statements))
            lines += [f"if ({condition}) {{", *indented(own), "}"] if condition else own
        self.predicated = False
        return lines

    def _condition(self, statement: Statement) -> str:
        return "" if isinstance(statement, Move) else self._exists(at(statement).iteration)[0]

    def _settle(self, steady: Sequence[Statement]) -> None:
        """What is in flight at the back edge of a loop, rather than when it is entered."""
        self.all(steady)

    def _for(self, op: Op, body: Sequence[Statement], bounds: Sequence[Read]) -> list[str]:
        lower, upper, step = self._bounds(op, bounds)
        counter = op.regions[0].blocks[0].args[0]
        name = c_name(self.program.name(counter.id))
        self.inductions = {**(self.inductions or {}), counter.id: lambda i: name}
        if op.index == self.program.claiming:
            return self._claiming(name, lower, upper, body)
        if not any(isinstance(one, Alternate) for one in body):
            head = f"for (int32_t {name} = {lower}; {name} < {upper}; {name} += {step}) {{"
            return [head, *indented(self.all(body)), "}"]
        head = f"for (int32_t {name} = {lower}; {name} < {upper}; {name} += {step}, ++tile_number) {{"
        return ["uint32_t tile_number = 0;", head, *indented(self.all(body)), "}"]

    def _claiming(self, name: str, lower: str, upper: str, body: Sequence[Statement]) -> list[str]:
        """A loop over tiles that are claimed: the group that loads asks for the next one before each."""
        rank = PAIR_RANK if self.program.pairs else "0"
        scheduler = next((one for one in self.program.groups if one.only_moves), self.program.groups[0])
        request = [f"if (thread.leader) {CLAIMED}.request(claimed, {rank});", "__syncwarp();"]
        lines = [*(request if self.group is scheduler else []), *self.all(body)]
        lines.append(f"{name} = {CLAIMED}.next(claimed++, {rank});")
        head = f"for (int32_t {name} = {lower}; uint32_t({name}) < uint32_t({upper});) {{"
        return ["uint32_t claimed = 0;", head, *indented(lines), "}"]

    def _alternate(self, it: Alternate) -> list[str]:
        condition = f"tile_number % {it.tiles} == {it.index}"
        own, other = self.all(it.own), self.all(it.other)
        return [
            f"if ({condition}) {{",
            *indented(own),
            *(["} else {", *indented(other)] if other else []),
            "}",
        ]

    def _while(
        self, op: Op, before: Sequence[Statement], condition: Read | None, body: Sequence[Statement]
    ) -> list[str]:
        decision = op.regions[0].blocks[0].ops[-1]
        first = self.all(before)
        scope = self.scope([condition] if condition else [])
        ends = f"if (!({scope.scalar(decision.operands[0])})) break;"
        return ["while (true) {", *indented([*first, ends, *self.all(body)]), "}"]

    def _if(
        self, op: Op, condition: Read | None, then: Sequence[Statement], otherwise: Sequence[Statement]
    ) -> list[str]:
        scope = self.scope([condition] if condition else [])
        lines = [f"if ({scope.scalar(op.operands[0])}) {{", *indented(self.all(then))]
        return [*lines, *(["} else {", *indented(self.all(otherwise))] if otherwise else []), "}"]


def issues(group: WarpProgram) -> bool:
    """Whether a group issues MMAs."""
    return any(isinstance(one, MmaIssue) for one in walk(group.body))


def pair_waits(program: Program, barrier: str) -> bool:
    """Whether MMAs of a pair wait for a dependence barrier: threads of both blocks arrive on the first
    one's."""
    one = next(one for one in program.dependences if one.id == barrier)
    waiter = next(group for group in program.groups if group.id == one.waiter)
    waits = (it for it in walk(waiter.body) if isinstance(it, BarrierWait) and it.barrier == barrier)
    return program.pairs and one.by == "threads" and any(it.issuer for it in waits)


def indented(lines: Iterable[str]) -> list[str]:
    """One level deeper; preprocessor lines too, so that the text reads well."""
    return [f"    {line}" if line else line for line in lines]


def trips(program: Program, loop: int) -> str:
    """The variable that holds the trip count of a pipelined loop."""
    loops = sorted(
        {one.op for group in program.groups for one in walk(group.body) if isinstance(one, Pipelined)}
    )
    return f"trips_{loops.index(loop)}"


def _span(lower: str, upper: str, step: str) -> str:
    """Iterations of a loop; 0 or less for an empty range."""
    span = upper if lower == "0" else f"{atom(upper)} - {atom(lower)}"
    if step == "1":
        return span
    rounding = plus(span, int(step) - 1) if literal(step) is not None else f"{span} + {atom(step)} - 1"
    return f"({rounding}) / {atom(step)}"


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


def _leaves(value: Value) -> bool:
    return isinstance(value.type, Tensor) and leaves(value.type)


def _across(words: Held) -> int:
    """Among how many groups of warps the columns of a tile are divided. Raises ValueError for a linear layout
    other than a row in each thread."""
    if isinstance(words.layout, Spread):
        groups = row_groups(words.layout)
        if groups is None:
            raise ValueError("in a layout with other than a row in each thread can not be stored so")
        return groups
    return words.layout.across


def _number_copied(scope: Scope, op: Op, size: int, slot: str) -> str:
    """The copy of a number to a slot, by one thread."""
    pointer, *masks = (bare(scope.scalar(value)) for value in op.operands[:2])
    return f"if (thread.leader) cp_async<{size}>({', '.join((slot, pointer, *masks))});"


def _coordinates(corner: list[str], column: int) -> str:
    """Of a box, innermost first."""
    *outer, inner = corner
    return ", ".join([plus(inner, column), *reversed(outer)])
