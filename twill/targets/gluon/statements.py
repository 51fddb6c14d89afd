"""One recipe for each kind of statement of a warp program, as lines of Gluon.

Takes a `Program`, a group and a statement. What Gluon lacks is left to Triton: slices of a tile operation are
executed together at the last of them, a deferred reduction is complete at once, and scheduling fences are
omitted. Ordering barriers are mbarriers. All values are those of the statements.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from typing import assert_never

from twill.diagnostics import TwillError
from twill.ir.channels import Buffer, Channel
from twill.ir.effects import at
from twill.ir.loop import MemDesc, NvidiaMma, NvmmaShared, Op, Pointer, Scalar, Tensor, TensorDesc
from twill.ir.operands import ONCE, Iteration, Read, Register, Slot, TensorMemory
from twill.ir.program import WarpProgram
from twill.ir.statements import (
    SLICES,
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
    TileLoad,
    While,
    walk,
)
from twill.ops.table import role
from twill.targets.cuda.elements import variable
from twill.targets.cuda.emitter import indented
from twill.targets.cuda.expressions import atom, literal, plus, times
from twill.targets.gluon.layouts import bits, dtype
from twill.targets.gluon.scope import (
    DRAIN,
    File,
    Scope,
    counter,
    empty,
    full,
    iteration,
    number,
    safe,
    tensor_name,
)

SYNC, SYNC_COUNT = "tensor_sync", "tensor_sync_count"
"""The mbarrier on which all groups that use tensor memory synchronize, and how often a group has."""
WARPGROUP = 4
"""Warps that together reach all rows of tensor memory."""
REDUCTIONS = {"None": "tma_store", "add": "tma.async_atomic_add"}
"""How a tile leaves, by the kind of reduction."""


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

    def all(self, statements: Sequence[Statement]) -> list[str]:
        return [line for statement in statements for line in self.one(statement)]

    def one(self, statement: Statement) -> list[str]:
        match statement:
            case Compute():
                return self._compute(statement)
            case InitializeCarried():
                return self._initialize(statement)
            case Move(name, age):
                return self._assigned(Register(name, age), safe(variable(Register(name, age - 1))))
            case FinalizeReduction() | SchedulingFence():
                return []
            case MmaIssue():
                return self._issue(statement)
            case MmaWait(pending):
                return self._wait(pending)
            case ProducerLoad():
                return self._producer_load(statement)
            case ProducerStore():
                return self._producer_store(statement)
            case ConsumerWait(channel, when):
                return self._consumer_wait(channel, when.iteration)
            case ConsumerRelease(channel, when):
                return self._release(channel, when.iteration)
            case Advance(channel, loop):
                grown = "1" if loop is None else self._trips(loop)
                return [f"{counter(channel)} += {grown}"]
            case OrderBarrierWait(order):
                return self._order_wait(order)
            case OrderBarrierArrive(order):
                return [f"mbarrier.arrive({order}, count=1)"]
            case BarrierArrive(barrier, when):
                return [f"mbarrier.arrive({self._dependence(barrier, when.iteration)}, count=1)"]
            case BarrierWait():
                return self._dependence_wait(statement)
            case TensorMemorySync():
                return self._tensor_memory_sync()
            case StoreTile():
                return self._store(statement)
            case StoreWait():
                return ["tma.store_wait(0)"]
            case Pipelined() | For() | While() | If() | Alternate():
                return self._structure(statement)
            case _:
                assert_never(statement)

    def _structure(self, statement: Pipelined | For | While | If | Alternate) -> list[str]:
        match statement:
            case Pipelined():
                return self._pipelined(statement)
            case For():
                return self._for(statement)
            case While():
                return self._while(statement)
            case If():
                return self._if(statement)
            case Alternate():
                raise TwillError(
                    "several tiles in flight are not exported",
                    self.file.program.function.location,
                    help="generate with --tiles-in-flight 1",
                )

    # --- what statements share ------------------------------------------------------------------------------

    def _begin(self, reads: Sequence[Read] = (), at: Iteration = ONCE, *, shared: bool = False) -> Scope:
        """The scope of a statement."""
        self.scope.values, self.scope.lines, self.scope.targets = {}, [], {}
        self.scope.trips = self.trips
        for value, (lower, step) in self.affine.items():
            self.scope.values[value] = atom(plus(lower, times(iteration(at, self.trips), step)))
        self.scope.bind(reads, lambda slot: number(slot.channel, slot.iteration, self.trips), shared=shared)
        return self.scope

    def _comment(self, cycle: int | None, stage: int, ops: Sequence[int], name: str) -> str:
        where = f"cycle {cycle}, stage {stage}: " if cycle is not None else ""
        return f"# {where}{name} ({self.file.program.op(ops[-1]).location})"

    def _of(self, channel: str, where: Iteration) -> str:
        """Arguments of the functions that wait: the tile's number and the number of slots."""
        return f"{number(channel, where, self.trips)}, {self.file.program.channel(channel).depth}"

    def _barrier(self, name: str, channel: str, where: Iteration) -> str:
        """One of a channel's barriers."""
        depth = self.file.program.channel(channel).depth
        return (
            f"{name}.index({'0' if depth == 1 else f'{atom(number(channel, where, self.trips))} % {depth}'})"
        )

    def _assigned(self, register: Register, text: str) -> list[str]:
        name = safe(variable(register))
        self.defined |= {name}
        self.tokens -= {name}
        return [f"{name} = {text}"]

    def _trips(self, loop: int) -> str:
        loops = sorted({one.op for one in walk(self.group.body) if isinstance(one, Pipelined)})
        return f"trips_{loops.index(loop)}"

    # --- computing ------------------------------------------------------------------------------------------

    def _compute(self, it: Compute) -> list[str]:
        if it.end < SLICES:
            return []
        scope = self._begin(it.reads, it.at.iteration)
        read = {one.location for one in it.reads}
        scope.targets = {
            one.value: safe(variable(one.register)) for one in it.writes if one.register not in read
        }
        for index in it.ops:
            scope.execute(self.file.program.op(index))
        scope.write(it.writes)
        self.defined |= {safe(variable(one.register)) for one in it.writes}
        return [self._comment(it.at.cycle, it.at.stage, it.ops, it.node), *scope.lines]

    def _initialize(self, it: InitializeCarried) -> list[str]:
        scope = self._begin([Read(it.value, it.source)] if it.source else [], it.at.iteration)
        text = scope.text(self.file.program.value(it.value))
        return [*scope.lines, *self._assigned(it.register, text)]

    # --- tensor core ----------------------------------------------------------------------------------------

    def _issue(self, it: MmaIssue) -> list[str]:
        dot = self.file.program.op(it.ops[-1])
        scope = self._begin(it.reads, it.at.iteration, shared=True)
        for index in it.ops[:-1]:
            scope.execute(self.file.program.op(index))
        a, b = (self._part(it, dot, i, scope.text(dot.operands[i])) for i in (0, 1))
        if not isinstance(it.accumulator, Register):
            return self._issue_to_tensor_memory(it, dot, it.accumulator, f"{a}, {b}")
        into = safe(variable(it.accumulator))
        assert isinstance(dot.result.type, Tensor)
        form = dot.result.type.encoding
        if isinstance(form, NvidiaMma) and prod(form.warps_per_cta) != self.group.warps:
            whole, own = prod(form.warps_per_cta), self.group.warps
            raise self.file.refuse(dot, f"of {whole} warps is executed by a group of {own}")
        adds = "True" if it.begin else self._accumulates(it)
        source = scope.zeros(dot.result.type) if adds == "False" else into
        self.in_flight, self.tokens = (*self.in_flight, into), self.tokens | {into}
        self.defined |= {into}
        call = f"{into} = warpgroup_mma({a}, {b}, {source}, use_acc={adds}, is_async=True)"
        return [self._comment(it.at.cycle, it.at.stage, it.ops, it.node), *scope.lines, call]

    def _issue_to_tensor_memory(self, it: MmaIssue, dot: Op, into: TensorMemory, operands: str) -> list[str]:
        """Complete with arrivals on mbarriers."""
        if it.scales or role(dot) != "tensor_memory_mma" or "scaled" in dot.name:
            raise self.file.refuse(dot, "with scale factors is not exported")
        assert isinstance(it.completion, MbarrierArrival)
        barriers = [
            self._barrier(empty(one.channel), one.channel, one.iteration) for one in it.completion.slots
        ]
        barriers += [self._dependence(one.barrier, one.iteration) for one in it.completion.barriers]
        adds = "True" if it.begin else self._accumulates(it)
        tile = self.scope.tensor_tile(into, dot.operands[2].type)
        given = f"{operands}, {tile}, use_acc={adds}, mbarriers=[{', '.join(barriers)}]"
        head = self._comment(it.at.cycle, it.at.stage, it.ops, it.node)
        return [head, *self.scope.lines, f"tcgen05_mma({given})"]

    def _part(self, it: MmaIssue, dot: Op, operand: int, text: str) -> str:
        """Elements `begin` to `end` of K of an operand."""
        kind, axis = dot.operands[operand].type, 1 - operand
        assert isinstance(kind, Tensor | MemDesc)
        if (it.begin, it.end) == (0, kind.shape[axis]):
            return text
        if isinstance(kind, Tensor):
            raise self.file.refuse(dot, "is issued in parts, with a left operand in registers")
        return f"{text}.slice({it.begin}, {it.end - it.begin}, {axis})"

    def _accumulates(self, it: MmaIssue) -> str:
        """Whether an MMA adds to its accumulator."""
        where = it.at.iteration
        match it.accumulate, where.base:
            case "always", _:
                return "True"
            case ("never", _) | ("not_first", "once"):
                return "False"
            case "not_first", "first":
                return str(where.offset > 0)
            case "not_first", "newest":
                return "True" if where.offset < self.least else f"i != {where.offset}"
            case "not_first", "last":
                return "True" if where.offset + 1 < self.least else f"{self.trips} != {where.offset + 1}"

    def _wait(self, pending: int) -> list[str]:
        """All accumulators in flight are named, so that Triton keeps their registers until then."""
        names = [*dict.fromkeys((*self.in_flight, *sorted(self.tokens)))]
        self.in_flight = self.in_flight[len(self.in_flight) - pending :] if pending else ()
        self.tokens = frozenset()
        if not names:
            return []
        return [f"{', '.join(names)} = warpgroup_mma_wait({pending}, deps=[{', '.join(names)}])"]

    def _as_tokens(self, names: frozenset[str]) -> list[str]:
        """Tiles, from here on of the type that MMAs return."""
        made = sorted(names - self.tokens)
        self.tokens |= names
        return [f"{name} = warpgroup_mma_init({name})" for name in made]

    # --- channels -------------------------------------------------------------------------------------------

    def _producer_load(self, it: ProducerLoad) -> list[str]:
        channel = self.file.program.channel(it.channel)
        barrier = self._barrier(full(it.channel), it.channel, it.at.iteration)
        lines = [
            self._comment(it.at.cycle, it.at.stage, it.loads[-1].ops, f"load {it.channel}"),
            f"producer_acquire({empty(it.channel)}, {self._of(it.channel, it.at.iteration)})",
        ]
        if not by_copies(self.file, channel):
            lines.append(f"mbarrier.expect({barrier}, {it.bytes})")
            return [*lines, *(line for load in it.loads for line in self._tile(it, load, barrier))]
        copied = [line for load in it.loads for line in self._copy(it, load)]
        return [*lines, *copied, f"async_copy.mbarrier_arrive({barrier}, increment_count=False)"]

    def _tile(self, it: ProducerLoad, load: TileLoad, barrier: str) -> list[str]:
        scope = self._begin(load.reads, it.at.iteration)
        *before, op = (self.file.program.op(index) for index in load.ops)
        for one in before:
            scope.execute(one)
        corner = ", ".join(scope.text(value) for value in op.operands[1:])
        slot = Slot(it.channel, load.tensor, it.at.iteration)
        into = scope.slot(slot, number(it.channel, it.at.iteration, self.trips))
        return [*scope.lines, f"tma_load({descriptor(self.file, op)}, [{corner}], {barrier}, {into})"]

    def _copy(self, it: ProducerLoad, load: TileLoad) -> list[str]:
        """Asynchronous copies by every thread of the group; where the mask is false they write zeros. A tile
        that passes through registers is loaded and stored."""
        scope = self._begin(load.reads, it.at.iteration)
        *before, op = (self.file.program.op(index) for index in load.ops)
        if not isinstance(op.result.type, Tensor):
            raise self.file.refuse(op, "of a number into a channel is not exported")
        for one in before:
            scope.execute(one)
        slot = Slot(it.channel, load.tensor, it.at.iteration)
        into = scope.slot(slot, number(it.channel, it.at.iteration, self.trips))
        if load.along is not None:
            scope.execute(op)
            return [*scope.lines, f"{into}.store({scope.values[op.result.id]})", "fence_async_shared()"]
        given = ", ".join(scope.text(value) for value in op.operands[:2])
        return [*scope.lines, f"copy_async({into}, {given})"]

    def _producer_store(self, it: ProducerStore) -> list[str]:
        scope = self._begin(it.reads, it.at.iteration)
        for index in it.ops:
            scope.execute(self.file.program.op(index))
        lines = [
            f"# cycle {it.at.cycle}, stage {it.at.stage}: store {it.node} to {it.channel}",
            f"producer_acquire({empty(it.channel)}, {self._of(it.channel, it.at.iteration)})",
            *scope.lines,
        ]
        for position, value in enumerate(it.values):
            slot = Slot(it.channel, position, it.at.iteration)
            into = scope.slot(slot, number(it.channel, it.at.iteration, self.trips))
            lines.append(f"{into}.store({scope.values[value]})")
        barrier = self._barrier(full(it.channel), it.channel, it.at.iteration)
        return [*lines, "fence_async_shared()", f"mbarrier.arrive({barrier}, count=1)"]

    def _consumer_wait(self, channel: str, where: Iteration) -> list[str]:
        """Copies write through the generic proxy; the tensor core reads through the asynchronous one."""
        one = self.file.program.channel(channel)
        fenced = by_copies(self.file, one) and any(tensor.encoding is not None for tensor in one.tensors)
        wait = f"consumer_wait({full(channel)}, {self._of(channel, where)})"
        return [wait, "fence_async_shared()"] if fenced else [wait]

    def _release(self, channel: str, where: Iteration) -> list[str]:
        text = f"mbarrier.arrive({self._barrier(empty(channel), channel, where)}, count=1)"
        condition = self._exists(where)
        return [f"if {condition}:", f"    {text}"] if condition else [text]

    def _order_wait(self, order: str) -> list[str]:
        one = next(one for one in self.file.program.orders if one.id == order)
        flip = " ^ 1" if one.signalled else ""
        return [f"mbarrier.wait({order}, ({order}_waits & 1){flip})", f"{order}_waits += 1"]

    # --- tensor memory --------------------------------------------------------------------------------------

    def _dependence(self, barrier: str, where: Iteration) -> str:
        """The mbarrier on which the arrivals of an iteration count."""
        one = next(one for one in self.file.program.dependences if one.id == barrier)
        return f"{barrier}.index({atom(number(barrier, where, self.trips))} % {one.depth})"

    def _dependence_wait(self, it: BarrierWait) -> list[str]:
        """For an iteration that there is."""
        one = next(one for one in self.file.program.dependences if one.id == it.barrier)
        phase, condition = number(it.barrier, it.awaited, self.trips), self._exists(it.awaited)
        if self.predicated and it.awaited.offset < it.at.iteration.offset:
            condition = f"i >= {it.awaited.offset}" if it.awaited.offset > 0 else ""
            last = f"gl.minimum({iteration(it.awaited, self.trips)}, {self.trips} - 1)"
            phase = f"{counter(it.barrier)} + {last}"
        slot, parity = f"({phase}) % {one.depth}", f"(({phase}) // {one.depth}) & 1"
        wait = f"mbarrier.wait({it.barrier}.index({slot}), {parity})"
        return [f"if {condition}:", f"    {wait}"] if condition else [wait]

    def _exists(self, when: Iteration) -> str:
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

    def _tensor_memory_sync(self) -> list[str]:
        """The MMAs of this group are complete, then the groups synchronize."""
        if not self.file.program.tensor_memory:
            raise TwillError(
                "a barrier behind a store can not be exported: Gluon has no fence for global memory",
                self.file.program.function.location,
                help="generate CUDA with twill codegen",
            )
        lines, phase = list[str](), f"{SYNC_COUNT} & 1"
        if any(isinstance(one, MmaIssue) for one in walk(self.group.body)):
            drain = drained(self.group)
            lines = [f"tcgen05_commit({drain})", f"mbarrier.wait({drain}, {phase})"]
        arrive = [f"mbarrier.arrive({SYNC}, count=1)", f"mbarrier.wait({SYNC}, {phase})"]
        return [*lines, *arrive, f"{SYNC_COUNT} += 1"]

    # --- results --------------------------------------------------------------------------------------------

    def _store(self, it: StoreTile) -> list[str]:
        program = self.file.program
        scope, op = self._begin(it.reads, it.at.iteration), program.op(it.ops[-1])
        value = next(value for value in op.operands if isinstance(value.type, Tensor))
        for index in it.ops[:-1]:
            scope.execute_before(program.op(index), value)
        corner = [scope.text(one) for one in op.operands[1:] if not isinstance(one.type, Tensor)]
        word = REDUCTIONS.get(str(op.attributes.get("kind")))
        if word is None:
            raise self.file.refuse(op, f"{op.attributes['kind']} is not exported")
        buffer = next(one for one in program.buffers if one.id == it.buffer)
        parts = divided(self.file, it)
        lines = [self._comment(it.at.cycle, it.at.stage, it.ops, "store"), *scope.lines]
        for part, text in enumerate(self._parts(scope.text(value), op, parts, lines)):
            lines += ["tma.store_wait(0)"] if it.waits or part else []
            lines += self._leave(op, word, text, buffer, parts, part, corner)
        return lines

    def _parts(self, text: str, op: Op, parts: int, lines: list[str]) -> list[str]:
        """Equal parts of the columns of a tile, first to last; appends the lines that divide it."""
        kind = op.operands[0].type
        assert isinstance(kind, TensorDesc)
        found, columns = [text], kind.shape[-1]
        while len(found) < parts:
            columns //= 2
            halves = list[str]()
            for one in found:
                left, right = (self.scope.fresh("part") for _ in range(2))
                shape = [*kind.shape[:-1], 2, columns]
                order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
                halves_last = self._in_threads(f"gl.permute(gl.reshape({one}, {shape}), {order})", len(shape))
                lines.append(f"{left}, {right} = gl.split({halves_last})")
                halves += [left, right]
            found = halves
        return found

    def _in_threads(self, text: str, rank: int) -> str:
        """A tile whose last axis, of two elements, lies within threads, so that it can be split: columns of
        tensor memory are divided among warpgroups."""
        if not self.file.program.tensor_memory or self.group.warps <= WARPGROUP:
            return text
        ones = [1] * (rank - 1)
        layout = f"{[*ones, 2]}, {[32, *ones]}, {[self.group.warps, *ones]}, {[*range(rank)][::-1]}"
        return f"gl.convert_layout({text}, gl.BlockedLayout({layout}))"

    def _leave(
        self, op: Op, word: str, text: str, buffer: Buffer, parts: int, part: int, corner: list[str]
    ) -> list[str]:
        """One part of a tile: registers to shared memory, then to global memory."""
        kind = op.operands[0].type
        assert isinstance(kind, TensorDesc)
        columns = kind.shape[-1] // parts
        staging = self.staging(op, buffer, (*kind.shape[:-1], columns))
        at = [*corner[:-1], plus(corner[-1], part * columns)]
        return [
            f"{staging}.store({text})",
            "fence_async_shared()",
            f"{word}({descriptor(self.file, op, parts)}, [{', '.join(at)}], {staging})",
        ]

    def staging(self, op: Op, buffer: Buffer, shape: tuple[int, ...]) -> str:
        """Shared memory for a tile on its way out: a buffer of its own, or the slots that it overlays."""
        kind = op.operands[0].type
        assert isinstance(kind, TensorDesc)
        element = self.scope.attempt(op, lambda: dtype(kind.dtype))
        form = self.scope.attempt(op, lambda: self.file.layouts.name(kind.encoding, shape))
        if buffer.overlays is None:
            return f"reinterpreted({buffer_name(buffer)}, {element}, {[*shape]}, {form})"
        channel = self.file.program.channel(buffer.overlays)
        needed = prod(shape) * bits(kind.dtype) // 8
        sizes = [channel.depth * tensor.bytes for tensor in channel.tensors]
        position = min(range(len(sizes)), key=lambda one: (sizes[one] != needed, -sizes[one], one))
        slots, tiles = tensor_name(channel.id, position), sizes[position] // needed
        if tiles == 1 or sizes[position] % needed:
            return f"reinterpreted({slots}, {element}, {[*shape]}, {form})"
        return f"reinterpreted({slots}, {element}, {[tiles, *shape]}, {form}).index(0)"

    # --- structure ------------------------------------------------------------------------------------------

    def _bounds(self, op: Op, reads: Sequence[Read]) -> tuple[list[str], str, str, str]:
        scope = self._begin(reads)
        lower, upper, step = (scope.text(value) for value in op.operands[:3])
        return scope.lines, lower, upper, step

    def _pipelined(self, it: Pipelined) -> list[str]:
        op = self.file.program.op(it.op)
        lines, lower, upper, step = self._bounds(op, it.bounds)
        induction = op.regions[0].blocks[0].args[0]
        self.trips, self.least = self._trips(it.op), it.stages - 1
        count = f"gl.to_tensor(gl.maximum({_span(lower, upper, step)}, 0))"
        before = self.defined
        lines += [
            f"# {it.path}: {it.stages} stages, an iteration every {it.interval} cycles",
            f"{self.trips} = {count}{'' if induction.type == Scalar('i32') else '.to(gl.int32)'}",
            *self._declared(it),
        ]
        self.affine[induction.id] = (lower, step)
        whole = [*self._prologue_and_loop(it), *self.all(it.epilogue), *self._drained()]
        lines += [f"if {self.trips} >= {self.least}:", *indented(whole)] if self.least else whole
        self.least = 0
        statements = self._predicated(it) if it.predicated else self.all(it.short)
        short = [*statements, *self._drained()] if it.short else []
        last = f"{self.trips} + {it.stages - 1}" if it.predicated else self.trips
        each = [f"for i in range(0, {last}):", *indented(short)]
        return [*lines, *(["else:", *indented(each)] if short else []), *self._at_none(it, before)]

    def _predicated(self, it: Pipelined) -> list[str]:
        """The steady state, each statement only for iterations that there are."""
        self.predicated, lines = True, list[str]()
        for condition, statements in groupby(it.short, self._present):
            own = self.all(tuple(statements))
            lines += [f"if {condition}:", *indented(own)] if condition and own else own
        self.predicated = False
        return lines

    def _present(self, statement: Statement) -> str:
        """The condition that a statement's iteration exists."""
        return "" if isinstance(statement, Move) else self._exists(at(statement).iteration)

    def _at_none(self, it: Pipelined, before: frozenset[str]) -> list[str]:
        """What a loop without iterations leaves in the accumulators that had a value `before`, or lie in
        tensor memory; the others were declared as zeros."""
        stale = [
            one
            for one in it.zeroed
            if (isinstance(one, Compute) and one.stores)
            or (isinstance(one, InitializeCarried) and safe(variable(one.register)) in before)
        ]
        return [f"if {self.trips} == 0:", *indented(self.all(stale))] if stale else []

    def _prologue_and_loop(self, it: Pipelined) -> list[str]:
        """The steady state is written twice: the first time only for what is in flight at its end."""
        lines = self.all(it.prologue)
        flying, tokens, names = self.in_flight, self.tokens, set(self.scope.names)
        self.all(it.steady)
        queue, ending = self.in_flight, self.tokens
        self.tokens, self.scope.names = tokens, names
        self.in_flight = queue if len(queue) >= len(flying) else flying
        lines += self._as_tokens(tokens | ending)
        steady = [*self.all(it.steady), *self._as_tokens(tokens | ending)]
        return [*lines, f"for i in range({self.least}, {self.trips}):", *indented(steady or ["pass"])]

    def _drained(self) -> list[str]:
        return self._wait(0) if self.tokens or self.in_flight else []

    def _declared(self, it: Pipelined) -> list[str]:
        """Zeros for the variables that only some paths through the loop assign: Triton's front end wants a
        value of each on every path."""
        lines = list[str]()
        for register in sorted(_registers((it,)), key=variable):
            kind, name = self.group.variable(register.variable).type, safe(variable(register))
            if name in self.defined or _of_pointers(kind):
                continue
            lines.append(f"{name} = {self.scope.zeros(kind)}")
            self.defined |= {name}
        return lines

    def _for(self, it: For) -> list[str]:
        op = self.file.program.op(it.op)
        lines, lower, upper, step = self._bounds(op, it.bounds)
        index = op.regions[0].blocks[0].args[0]
        name = self.scope.fresh(self.file.program.name(index.id))
        self.scope.inductions[index.id] = name
        before = self.defined
        body = self.all(it.body)
        self.defined = before
        return [*lines, f"for {name} in range({lower}, {upper}, {step}):", *indented(body or ["pass"])]

    def _while(self, it: While) -> list[str]:
        """The condition is computed before the loop, and at the end of each iteration."""
        op = self.file.program.op(it.op)
        going, before = self.scope.fresh("going"), self.defined
        first = [*self.all(it.before), *self._condition(op, it.condition, going)]
        body = [*self.all(it.body), *self.all(it.before), *self._condition(op, it.condition, going)]
        self.defined = before
        return [*first, f"while {going}:", *indented(body)]

    def _condition(self, op: Op, read: Read | None, going: str) -> list[str]:
        scope = self._begin([read] if read else [])
        end = op.regions[0].blocks[0].ops[-1]
        return [*scope.lines, f"{going} = {scope.text(end.operands[0])}"]

    def _if(self, it: If) -> list[str]:
        scope, op = self._begin([it.condition] if it.condition else []), self.file.program.op(it.op)
        head = [*scope.lines, f"if {scope.text(op.operands[0])}:"]
        before = self.defined
        then, otherwise = self.all(it.then), self.all(it.otherwise)
        self.defined = before
        lines = [*head, *indented(then or ["pass"])]
        return [*lines, *(["else:", *indented(otherwise)] if otherwise else [])]


def _registers(statements: Sequence[Statement]) -> set[Register]:
    """What statements at any depth assign."""
    found = set[Register]()
    for one in walk(tuple(statements)):
        match one:
            case Compute():
                found |= {write.register for write in one.writes}
            case InitializeCarried():
                found.add(one.register)
            case Move(name, age):
                found.add(Register(name, age))
            case MmaIssue(accumulator=Register() as register):
                found.add(register)
            case _:
                pass
    return found


def _of_pointers(kind: object) -> bool:
    return isinstance(kind, Pointer) or (isinstance(kind, Tensor) and isinstance(kind.dtype, Pointer))


def _span(lower: str, upper: str, step: str) -> str:
    """Iterations of a loop; 0 or less for an empty range."""
    span = upper if lower == "0" else f"{atom(upper)} - {atom(lower)}"
    if step == "1":
        return span
    rounding = plus(atom(span), int(step) - 1) if literal(step) is not None else f"{span} + {atom(step)} - 1"
    return f"({rounding}) // {atom(step)}"


def by_copies(file: File, channel: Channel) -> bool:
    """Whether the threads of a group fill a channel by asynchronous copies: also rows that CUDA's bulk copies
    would load through a pointer, which Gluon does not have. Raises TwillError for a channel that is filled
    through descriptors too."""
    loads = [
        file.program.op(load.ops[-1])
        for group in file.program.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad) and one.channel == channel.id
        for load in one.loads
    ]
    through_pointers = [op for op in loads if role(op) == "pointer_load"]
    if through_pointers and len(through_pointers) < len(loads):
        raise file.refuse(through_pointers[0], "beside loads through descriptors is not exported")
    return bool(through_pointers)


def divided(file: File, it: StoreTile) -> int:
    """In how many parts a tile leaves: no part is larger than the slots of one tensor, where it goes through
    the slots of a channel. Raises TwillError where a part would be narrower than its swizzle pattern."""
    op, parts = file.program.op(it.ops[-1]), it.parts
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    buffer = next(one for one in file.program.buffers if one.id == it.buffer)
    if buffer.overlays is None:
        return parts
    channel = file.program.channel(buffer.overlays)
    room = max(channel.depth * tensor.bytes for tensor in channel.tensors)
    whole = prod(kind.shape) * bits(kind.dtype) // 8
    while whole // parts > room:
        parts *= 2
    line = kind.encoding.swizzle_bytes if isinstance(kind.encoding, NvmmaShared) else 0
    if kind.shape[-1] // parts * bits(kind.dtype) // 8 < line:
        raise file.refuse(op, f"of a tile in {parts} parts is not exported", "use tiles of fewer rows")
    return parts


def descriptor(file: File, op: Op, parts: int = 1) -> str:
    """The tensor descriptor that an operation works on; of part of its columns where `parts` is more than
    1."""
    name = safe(file.program.name(op.operands[0].id))
    return f"{name}_map" if parts == 1 else f"{name}_map_{parts}"


def drained(group: WarpProgram) -> str:
    """The mbarrier on which all MMAs of a group are waited for."""
    return f"{DRAIN}{group.id}"


def buffer_name(buffer: Buffer) -> str:
    return buffer.id.replace(".", "_")
