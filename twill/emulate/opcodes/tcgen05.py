"""MMAs and copies into tensor memory (PTX ISA, tcgen05.mma, tcgen05.cp, tcgen05.commit).

One thread issues them. Operands are checked and noted at the issue; they are read, and tensor memory is
written, when a wait on the mbarrier of a later commit needs it. Operations are carried out in the order of
their issue.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, guard_of, mask_of, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Operation
from twill.emulate.machine.barriers import Mbarrier
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import CARRIED, ORDERED, Array
from twill.emulate.memory.tensor import Cells, block
from twill.emulate.numeric.formats import FORMATS, table
from twill.emulate.opcodes.bulk import lane_value, one_lane, shared_address
from twill.emulate.opcodes.descriptors import KINDS, Kind, Shape, descriptor, shape
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get
from twill.emulate.opcodes.mbarrier import find
from twill.emulate.opcodes.memory import Where, items, reach, where
from twill.emulate.opcodes.operands import Descriptor, matrix, narrow, pieces, values
from twill.emulate.opcodes.tensor import Issuer, access, group_of, memory, pair, pipelined, split, view
from twill.emulate.ptx.syntax import Address, Instruction, Vector

# --- operations in flight ----------------------------------------------------------------------------------


def issuer(warp: Warp, lane: int) -> Issuer:
    known, cluster = access(warp).issuers, warp.cta.cluster
    if lane not in known:
        known[lane] = Issuer(cluster.clocks.add(f"tcgen05 operations of lane {lane} of {warp.name}"))
        pipelined(cluster).add(known[lane].component)
    return known[lane]


def queue(warp: Warp, work: Callable[[], None], line: int, what: str) -> None:
    """An operation that is carried out after all that were issued before it."""
    issued: list[Operation] = warp.cta.cluster.ctas[0].state.setdefault("tcgen05", [])

    def act() -> None:
        while issued[0] is not one:
            issued[0].complete()
        issued.pop(0)
        work()

    one = Operation(act, line, what)
    issued.append(one)
    warp.cta.cluster.pending.add(one)


@step("tcgen05.commit")
def _commit(one: Instruction, decoder: Decoder) -> Step:
    at, line, group = where(one.operands[0], decoder), one.line, group_of(one)
    mask = decoder.source(one.operands[1], "u16") if len(one.operands) > 1 else None

    def issue(warp: Warp, lane: int) -> None:
        pair(warp.cta, group)
        own = issuer(warp, lane)
        cta, place = shared_address(warp, lane_value(warp, at, lane, "the address of an mbarrier"))
        if mask is not None:
            warp.require(mask.code, mask.index, "a mask of CTAs")
        chosen = int(get(warp, mask)[lane]) if mask is not None else 1 << cta.rank
        targets = [one for one in warp.cta.cluster.ctas if chosen >> one.rank & 1]
        barriers = [(one, place, find(warp, one.base + place)) for one in targets]
        clock = _committed(warp, own)
        queue(warp, lambda: _arrive(barriers, clock), line, "a tcgen05.commit")

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def _committed(warp: Warp, own: Issuer) -> Array:
    """What happens before the arrival of a commit: the thread's operations, and what they were ordered
    behind. Of other accesses of its warp nothing is said."""
    clock = warp.seen().copy()
    clock[ORDERED, warp.component] = min(warp.synchronized, int(clock[ORDERED, warp.component]))
    np.maximum(clock[CARRIED], access(warp).fenced, out=clock[CARRIED])
    clock[ORDERED, own.component] = clock[CARRIED, own.component] = own.epoch
    own.epoch += 1
    return clock


def _arrive(barriers: Sequence[tuple[Cta, int, Mbarrier]], clock: Array) -> None:
    for cta, place, barrier in barriers:
        if cta.mbarriers.get(place) is not barrier:
            raise Fault("tcgen05.commit arrives on an mbarrier that was invalidated since")
        np.maximum(barrier.gathered, clock, out=barrier.gathered)
        barrier.arrive(1)


# --- operands ----------------------------------------------------------------------------------------------

_BITS: Mapping[str, int] = {"f16": 16, "bf16": 16, "tf32": 32}


@dataclass(frozen=True, slots=True)
class InShared:
    """An operand in the shared memory of one CTA."""

    cta: Cta
    at: Array
    """Of its 16-byte pieces."""
    type: str
    transposed: bool
    packed: bool

    @property
    def used(self) -> int:
        """Bytes of a piece that hold elements."""
        return 16 if self.packed else 2 * min(8, FORMATS[self.type].bits if self.type in FORMATS else 8)

    def read(self) -> Array:
        return matrix(self.cta, self.at, self.type, self.transposed, self.packed)


@dataclass(frozen=True, slots=True)
class InTensor:
    """Operand A in the tensor memory of one CTA: (lane, word of K)."""

    cta: Cta
    cells: Cells
    type: str
    packed: bool

    rows: int
    """Of A; further lanes hold them again."""

    def read(self) -> Array:
        held = memory(self.cta).data[self.cells.index]
        words = np.ascontiguousarray(held[: self.rows]).view(np.uint8)
        if (held[self.rows :] != held[: len(held) - self.rows]).any():
            raise Fault("A differs between lanes 0 to 63 and lanes 64 to 127, which must hold the same")
        return values(narrow(words, 4, False) if self.packed else words, self.type)


def in_shared(
    cta: Cta, one: Descriptor, rows: int, type: str, transposed: bool, kind: Kind, tf32: bool
) -> InShared:
    """Raises Fault for a swizzle that the major-ness does not have."""
    if tf32 and transposed != (one.atom == 32) and (transposed or one.atom == 32):
        raise Fault("transposed operands of .kind::tf32 have the swizzle of 128 bytes with atoms of 32")
    if not tf32 and transposed and one.atom == 32:
        raise Fault("the swizzle of 128 bytes with atoms of 32 is for transposed operands of .kind::tf32")
    each = 128 // _BITS.get(type, 8)
    across = rows // each if transposed else 2
    return InShared(cta, pieces(one, rows, transposed, kind.depth, across), type, transposed, kind.packed)


def rows_of(m: int, group: int, lane: int) -> Array:
    """Lanes of one CTA's rows of A, and of D without halves (PTX ISA, "Data Path Layout Organization")."""
    count = m // group
    if count == 64 and group == 1:
        row = np.arange(64)
        return lane + 32 * (row // 16) + row % 16
    return lane + np.arange(count)


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of D in one CTA, and which of its rows, and which columns of D, they hold."""

    cta: Cta
    cells: Cells
    rows: Array
    columns: slice

    def without(self, disabled: Array) -> "Part":
        """Only what `disabled`, by lane, leaves."""
        lanes = self.cells.lanes[:, 0]
        kept = ~disabled[lanes]
        return replace(self, cells=replace(self.cells, lanes=lanes[kept, None]), rows=self.rows[kept])


def parts_of(ctas: Sequence[Cta], one: Shape, address: int) -> Iterator[Part]:
    """Where D lies (PTX ISA, "Data Path Layout Organization": layouts A, B, D and F). Raises Fault."""
    lane, column = split(address)
    group, each = len(ctas), one.m // len(ctas)
    if lane not in ((0, 16) if (group, one.m) == (1, 64) else (0,)):
        raise Fault(f"the accumulator of an MMA with {one.m} rows starts at lane {lane}")
    for cta in ctas:
        if (group, one.m) == (2, 128):
            half = one.n // 2
            for j in range(2):
                cells = block(np.arange(64) + 64 * j, column, half)
                yield Part(cta, cells, np.arange(each), slice(half * j, half * j + half))
        else:
            cells = block(rows_of(one.m, group, lane), column, one.n)
            yield Part(cta, cells, np.arange(each), slice(0, one.n))


@dataclass(frozen=True, slots=True)
class Scales:
    """Scale factors of an operand in the tensor memory of one CTA: a word for each row, of which `count`
    bytes from the first are used."""

    cta: Cta
    cells: Cells
    type: str
    first: int
    count: int

    def read(self, depth: int) -> Array:
        """(row, K). Raises Fault where the four quarters of the lanes differ."""
        words = memory(self.cta).data[self.cells.index]
        octets = np.ascontiguousarray(words).view(np.uint8).reshape(4, -1, 4)
        used = octets[:, :, self.first : self.first + self.count]
        if (used != used[0]).any():
            raise Fault("scale factors differ among the quarters of tensor memory: each needs all of them")
        return np.repeat(table(self.type)[used[0]], depth // self.count, axis=1)


def scales(cta: Cta, address: int, rows: int, type: str, first: int, count: int) -> Scales:
    """Row r lies in lane r % 32 and column r / 32, again in each quarter of the lanes (PTX ISA, "Scale Factor
    A ID"). Raises Fault."""
    _, column = split(address)
    if (count == 2 and first % 2) or (count == 4 and first):
        raise Fault(f"scale factors start at byte {first} of a word, of which {count} are used")
    row = np.arange(rows)
    lanes = row % 32 + 32 * np.arange(4)[:, None]
    return Scales(cta, Cells(lanes, column + row[None, :] // 32 + 0 * lanes), type, first, count)


# --- MMA ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """An MMA as it stands in the text."""

    name: str
    group: int
    line: int
    d: Where
    a: Where | Ref
    """In tensor memory, or a descriptor."""
    b: Ref
    shape: Ref
    disabled: tuple[Ref, ...]
    scales: tuple[Where, Where] | None
    vector: int
    """Scale factors of a row in one instruction."""
    accumulate: tuple[Ref, bool]
    halvings: int
    """D is first multiplied by 2 to the power of minus this."""


_VECTORS: Mapping[tuple[str, str], int] = {
    ("mxf8f6f4", ""): 1,
    ("mxf8f6f4", "block32"): 1,
    ("mxf8f6f4", "scale_vec::1X"): 1,
    ("mxf4", ""): 2,
    ("mxf4", "block32"): 2,
    ("mxf4", "scale_vec::2X"): 2,
    ("mxf4nvf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::2X"): 2,
    ("mxf4nvf4", "block16"): 4,
    ("mxf4nvf4", "scale_vec::4X"): 4,
}
"""PTX ISA, "Valid combinations of scale_vectorsize with types and MMA-Kind", for K of 32 and 64."""


def _form(one: Instruction, decoder: Decoder) -> Form:
    """Raises ValueError or KeyError for what is not known."""
    if {"ws", "sp", "ashift"} & set(one.modifiers):
        raise ValueError("this form")
    name = next(part.removeprefix("kind::") for part in one.modifiers if part.startswith("kind::"))
    d, a, b, idesc, *rest = one.operands
    masked = isinstance(rest[0], Vector)
    disabled = tuple(decoder.source(item, "b32") for item in items(rest.pop(0))) if masked else ()
    scale, vector = None, 0
    if KINDS[name].scales:
        scale, rest = (where(rest[0], decoder), where(rest[1], decoder)), rest[2:]
        size = [part for part in one.modifiers if part.startswith(("scale_vec", "block"))]
        vector = _VECTORS[name, next((part for part in size if part != "block_scale"), "")]
    return Form(
        name,
        group_of(one),
        one.line,
        where(d, decoder),
        where(a, decoder) if isinstance(a, Address) else decoder.source(a, "u64"),
        decoder.source(b, "u64"),
        decoder.source(idesc, "u32"),
        disabled,
        scale,
        vector,
        guard_of(rest[0], decoder),
        immediate(rest[1]) if len(rest) > 1 else 0,
    )


@dataclass(frozen=True, slots=True)
class Issued:
    """One MMA with its operands, a list's item for each CTA."""

    form: Form
    shape: Shape
    parts: Sequence[Part]
    a: Sequence[InShared | InTensor]
    b: Sequence[InShared]
    scales: Sequence[tuple[Scales, Scales]]
    accumulate: bool


@step("tcgen05.mma")
def _mma(one: Instruction, decoder: Decoder) -> Step:
    form = _form(one, decoder)

    def issue(warp: Warp, lane: int) -> None:
        own, made = issuer(warp, lane), _issued(warp, lane, form)
        _note(warp, own, made)
        queue(warp, lambda: compute(made), form.line, "an MMA")

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def _number(warp: Warp, ref: Ref, lane: int, what: str) -> int:
    warp.require(ref.code, ref.index, what)
    return int(get(warp, ref)[lane])


def _descriptor(warp: Warp, ref: Ref, lane: int) -> Descriptor:
    return descriptor(_number(warp, ref, lane, "a matrix descriptor"), warp.cta.launch.strict)


def _issued(warp: Warp, lane: int, form: Form) -> Issued:
    ctas = pair(warp.cta, form.group)
    one = shape(_number(warp, form.shape, lane, "an instruction descriptor"), form.name, form.group)
    parts = list(parts_of(ctas, one, lane_value(warp, form.d, lane, "the address of D")))
    warp.require(form.accumulate[0].code, form.accumulate[0].index, "enable-input-d")
    return Issued(
        form,
        one,
        _enabled(warp, lane, form, parts, ctas),
        [_a(warp, lane, form, one, cta) for cta in ctas],
        [_b(warp, lane, form, one, cta) for cta in ctas],
        [_scales(warp, lane, form, one, cta) for cta in ctas] if form.scales else (),
        bool(mask_of(warp, form.accumulate) >> lane & 1),
    )


def _enabled(warp: Warp, lane: int, form: Form, parts: list[Part], ctas: Sequence[Cta]) -> list[Part]:
    """The parts without disabled lanes."""
    if not form.disabled:
        return parts
    words = [_number(warp, ref, lane, "disable-output-lane") for ref in form.disabled]
    flags = np.unpackbits(np.array(words, np.uint32).view(np.uint8), bitorder="little").astype(np.bool_)
    if len(words) != 4 * len(ctas):
        raise Fault(f"disable-output-lane has {len(words)} words: {4 * len(ctas)} are expected")
    return [part.without(flags.reshape(-1, 128)[ctas.index(part.cta)]) for part in parts]


def _a(warp: Warp, lane: int, form: Form, one: Shape, cta: Cta) -> InShared | InTensor:
    kind, rows = KINDS[form.name], one.m // form.group
    if isinstance(form.a, Ref):
        found = _descriptor(warp, form.a, lane)
        return in_shared(cta, found, rows, one.a_type, one.a_transposed, kind, form.name == "tf32")
    if one.a_transposed or one.a_type in ("e2m3", "e3m2") or (one.a_type == "e2m1" and not kind.packed):
        raise Fault(f"A of {one.a_type} in tensor memory, or transposed there, is not supported")
    first, column = split(lane_value(warp, form.a, lane, "the address of A"))
    lanes = np.arange(128) if (form.group, one.m) == (2, 128) else rows_of(one.m, form.group, first)
    return InTensor(cta, block(lanes, column, 8), one.a_type, kind.packed, rows)


def _b(warp: Warp, lane: int, form: Form, one: Shape, cta: Cta) -> InShared:
    found, kind = _descriptor(warp, form.b, lane), KINDS[form.name]
    rows = one.n // form.group
    return in_shared(cta, found, rows, one.b_type, one.b_transposed, kind, form.name == "tf32")


def _scales(warp: Warp, lane: int, form: Form, one: Shape, cta: Cta) -> tuple[Scales, Scales]:
    assert form.scales
    a, b = (lane_value(warp, at, lane, "the address of scale factors") for at in form.scales)
    rows = one.m // form.group
    return (
        scales(cta, a, rows, one.scale, one.a_scale, form.vector),
        scales(cta, b, one.n, one.scale, one.b_scale, form.vector),
    )


def _note(warp: Warp, own: Issuer, one: Issued) -> None:
    """Checks and notes what an MMA reads and writes. Raises Fault."""
    event = warp.cta.cluster.clocks.event(own.component, own.epoch, one.form.line, generic=False)
    seen = view(warp, own)
    for operand in (*one.a, *one.b):
        if isinstance(operand, InShared):
            reads_shared(warp, operand.cta, reach(operand.at, operand.used), own.component, event, "an MMA")
    tensors = [operand for operand in one.a if isinstance(operand, InTensor)]
    for operand in (*tensors, *(part for both in one.scales for part in both)):
        held = memory(operand.cta)
        if (held.check_read(operand.cells, seen) <= 0).any():
            raise Fault("an MMA reads tensor memory that was never written, or where what is undefined was")
        held.mark_read(operand.cells.index, own.component, event)
    for part in one.parts:
        held = memory(part.cta)
        if one.accumulate and (held.check_read(part.cells, seen) <= 0).any():
            raise Fault("an MMA adds to tensor memory that was never written")
        held.check_write(part.cells, seen)
        held.mark_write(part.cells.index, event)


def reads_shared(warp: Warp, cta: Cta, octets: Array, component: int, event: int, what: str) -> None:
    """Notes that bytes of shared memory will be read. Raises Fault."""
    cta.shared.inside(int(octets.min()), int(octets.max()) + 1)
    if (cta.shared.check_read(octets, warp.seen(), proxy=True) <= 0).any():
        raise Fault(f"{what} reads shared memory that was never written")
    cta.shared.mark_read(octets, component, event)


def compute(one: Issued) -> None:
    """Reads the operands and writes D."""
    depth = KINDS[one.form.name].depth
    b = np.concatenate([operand.read() for operand in one.b])
    ctas = [operand.cta for operand in one.a]
    left, right = [operand.read() for operand in one.a], [b] * len(ctas)
    for i, (a_scales, b_scales) in enumerate(one.scales):
        left[i], right[i] = left[i] * a_scales.read(depth), b * b_scales.read(depth)
    for part in one.parts:
        i = ctas.index(part.cta)
        dot = left[i][part.rows] @ right[i][part.columns].T
        _accumulate(part, -dot if one.shape.negative else dot, one)


def _accumulate(part: Part, dot: Array, one: Issued) -> None:
    data, sums = memory(part.cta).data, one.shape.sums
    held = data[part.cells.index]
    match sums:
        case "s32":
            whole = dot.astype(np.int64) + (held.view(np.int32) if one.accumulate else 0)
            low, high = -(1 << 31), (1 << 31) - 1
            made = (
                (np.clip(whole, low, high) if one.shape.saturate else whole).astype(np.int32).view(np.uint32)
            )
        case "f16":
            old = (held & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32)
            made = _sum(old, dot, one).astype(np.float16).view(np.uint16).astype(np.uint32)
        case _:
            made = _sum(held.view(np.float32), dot, one).astype(np.float32).view(np.uint32)
    data[part.cells.index] = made


def _sum(held: Array, dot: Array, one: Issued) -> Array:
    return np.ldexp(held, -one.form.halvings) + dot if one.accumulate else dot


# --- copies ------------------------------------------------------------------------------------------------

_COPIES: Mapping[frozenset[str], tuple[int, int]] = {
    frozenset({"128x256b"}): (128, 2),
    frozenset({"128x128b"}): (128, 1),
    frozenset({"32x128b", "warpx4"}): (32, 1),
}
"""Rows, and 16-byte pieces of a row, of the copies that are executed."""


@step("tcgen05.cp")
def _cp(one: Instruction, decoder: Decoder) -> Step:
    """Copies rows of an untransposed matrix in shared memory to lanes, with .warpx4 to each quarter."""
    group, line = group_of(one), one.line
    rows, across = _COPIES[frozenset(one.modifiers) - {"cp", f"cta_group::{group}"}]
    to, source = where(one.operands[0], decoder), decoder.source(one.operands[1], "u64")

    def issue(warp: Warp, lane: int) -> None:
        own = issuer(warp, lane)
        first, column = split(lane_value(warp, to, lane, "the destination of a copy"))
        found = _descriptor(warp, source, lane)
        at = pieces(found, rows, False, 16, across)
        if first:
            raise Fault(f"tcgen05.cp writes from lane {first} on: lane 0 is expected")
        cells = block(np.arange(128), column, 4 * across)
        for cta in pair(warp.cta, group):
            _copy(warp, own, cta, at, cells, line)

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def _copy(warp: Warp, own: Issuer, cta: Cta, at: Array, cells: Cells, line: int) -> None:
    event = cta.cluster.clocks.event(own.component, own.epoch, line, generic=False)
    reads_shared(warp, cta, reach(at, 16), own.component, event, "tcgen05.cp")
    held = memory(cta)
    held.check_write(cells, view(warp, own))
    held.mark_write(cells.index, event)

    def work() -> None:
        data = np.ascontiguousarray(cta.shared.data.reshape(-1, 16)[at >> 4]).view(np.uint32)
        held.data[cells.index] = np.tile(data.reshape(len(at), -1), (128 // len(at), 1))

    queue(warp, work, line, "a tcgen05.cp")
