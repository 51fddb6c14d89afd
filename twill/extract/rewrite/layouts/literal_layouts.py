"""Which tiles a kernel must hold exactly as TTGIR lays them out, said in the module itself.

The generator may hold a tile of a blocked layout otherwise than TTGIR says, so that most changes of layout
move nothing. It may not where an operation relies on which register of which thread holds an element
(`tt.join`, `tt.split`, `ttg.fp4_to_fp`, `tt.trans` and `tt.reshape` of tiles in registers, tiles of three
dimensions, MMAs of one warp), or where a tile has fewer rows or columns than its warps hold of an MMA's. It
should not where each thread would divide, or compute in a loop (`few_columns`), for many elements of a vector
that all warps hold then.
Takes a `Module`; gives the same with the layouts of these tiles written as linear ones, marked `exact`.
Elementwise operations, reductions and broadcasts keep to one layout and its slices, so a layout is exact
everywhere or nowhere. Lines stay where they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from math import prod
from typing import TypeGuard

from twill.extract.rewrite.layouts.as_accumulators import ONE_WARP, WARP_MMA, as_accumulator
from twill.extract.rewrite.layouts.few_columns import few_columns, few_of_vectors
from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.validate import valid
from twill.ir.distribution import Distribution, bases, distribution, root
from twill.ir.loop import (
    Bases,
    Blocked,
    DotOperand,
    Encoding,
    Linear,
    Module,
    NvidiaMma,
    Op,
    Slice,
    Tensor,
    Type,
    Value,
    users_of,
)
from twill.ops.axis import axis_of
from twill.ops.axis_info import AxisAnalysis, element_bytes, moved_together, run_bytes
from twill.ops.c import NARROW
from twill.ops.row import Role
from twill.ops.rules import is_float
from twill.ops.steps import step
from twill.ops.table import is_elementwise, role
from twill.ops.values import element

_RELYING: tuple[Role, ...] = ("join", "split", "unpack", "reshape", "transpose")
_MMAS: tuple[Role, ...] = ("dot", "wgmma")
_VIEWS: tuple[Role, ...] = ("reshape", "broadcast", "expand")
NARROW_BITS = {"f16": 16, "bf16": 16}
"""Elements that threads keep in pairs, and their bits."""
ACCESS, LINE = 128, 1024
"""Bits that a thread stores at once, and of a line in L2."""
SECTOR = 32
"""Bytes of global memory that an access touches at least."""
FEWER = 2
"""How many times as many sectors warps touch as an MMA has a tile, at least, where it is held as it is laid
out."""
DIVIDED = 4
"""How many times as many elements of a vector a thread holds as columns of an MMA, at least, where it divides
for each of them, as with the layout of the vector. (vLLM's fused MoE in fp8 with a scale for each column, at
column numbers modulo their count: 32 remainders of 64 bits in each thread instead of one.)"""


def literal_layouts(module: Module, *, everywhere: bool = False, vectors: bool = False) -> Module:
    """The module itself where no tile needs it. `everywhere`: all tiles are held exactly as laid out;
    `vectors`: those of one dimension (as rows of an MMA a thread would hold 64 elements of 64 threads four at
    a time, each in four threads: fla's chunk_gla_bwd_kernel_intra 1.50 to 1.39 ms on an H200)."""
    if everywhere:
        return _exact(module, [n for n, one in module.encodings.items() if _expressible(one)])
    wanted = _wanted(module)
    named = [
        name
        for name, encoding in module.encodings.items()
        if _expressible(encoding) and (encoding in wanted or (vectors and _of_vectors(encoding)))
    ]
    return _exact(module, named)


def _wanted(module: Module) -> frozenset[Encoding | None]:
    """The layouts that must be as they are. One that a view changes to another of them is too: Triton may
    broadcast a column to a tile in another layout, where threads hold the same rows in both."""
    buffered, ops = _buffered(module), [op for function in module.functions for op in function.walk()]
    wanted = frozenset(root(encoding) for op in ops for encoding in _needed(op, buffered))
    wanted |= _reduced_sooner(ops, module.num_warps)
    wanted |= _divided_by_few(ops)
    wanted |= few_columns(ops, buffered, module.num_warps) | few_of_vectors(ops, module.num_warps)
    wanted |= _stored_in_rows(ops, buffered) | _added_in_rows(ops)
    wanted |= frozenset(_stored_one_by_one(module, buffered))
    wanted |= frozenset(_loaded_down_columns(module, buffered))
    pairs = [frozenset(map(_root, (op.operands[0], op.result))) for op in ops if role(op) in _VIEWS]
    while more := frozenset[Encoding | None]().union(*(pair for pair in pairs if pair & wanted)) - wanted:
        wanted |= more
    return wanted


def _reduced_sooner(ops: Sequence[Op], warps: int) -> frozenset[Encoding | None]:
    """The layouts of tiles that warps reduce with fewer exchanges than as an MMA has them. (fla's
    merge_16x16_to_64x64_inverse_kernel reduces rows of eight lanes as an MMA has them, with 12 exchanges in
    an iteration, of four as it is laid out, with 4; the columns of a tile of 128 rows are in all eight warps
    of an MMA, and in one as Sparse-VideoGen's k-means lays it out.) Of several warps, of which an exchange
    takes shared memory, only those of tiles that go to no other layout as a whole."""
    counts, moved = Counter[Encoding](), set[Encoding | None]()
    for op in ops:
        if role(op) == "layout" and warps > 1:
            moved |= {_root(value) for value in (*op.operands, *op.results) if _wide(value.type)}
        tile = op.operands[0].type if role(op) == "reduce" else None
        if isinstance(tile, Tensor) and isinstance(tile.encoding, Blocked) and len(tile.shape) == 2:
            laid, held = distribution(tile.encoding, tile.shape), as_accumulator(tile.shape, warps)
            if laid is not None and held is not None:
                axis = axis_of(op)
                counts[tile.encoding] += _exchanges(held, axis) - _exchanges(laid, axis)
    return frozenset(encoding for encoding, saved in counts.items() if saved > 0) - moved


def _wide(type: Type) -> bool:
    """Whether a tile has several rows and columns."""
    return isinstance(type, Tensor) and sum(size > 1 for size in type.shape) > 1


def _stored_in_rows(ops: Sequence[Op], buffered: Set[int]) -> frozenset[Encoding | None]:
    """The layouts in which threads store 16 bytes each of whole lines of rows, and hold nothing else, where
    what they store are accumulators of MMAs by one warp whose warps lie beside each other: these pass through
    shared memory anyway, and as an MMA has them a warp would store a part of a line of eight rows. Of kernels
    with MMAs in a loop what such a loop stores in each iteration alone: other stores are a small part. (On an
    H200, SGLang's LoRA expansion, in rows of 128 columns: 0.076 to 0.064 ms; vLLM's fused MoE in fp8, behind
    its loop, 0.455 to 0.490; fla's chunk_fwd_kernel_h of two warps, whose loop stores the states, 0.106 to
    0.091.) Tiles that are loaded in such a layout only pass through registers on their way to shared memory:
    for accumulators their elements would have to change threads."""
    makers, found = makers_of(ops), set[Encoding | None]()
    multiplying = [own for op in ops if _repeats(makers, op) and any(map(_is_mma, own := [*op.inner()]))]
    stores = ops if not multiplying else [op for own in multiplying for op in _of_iterations(own)]
    for op in stores:
        if role(op) != "pointer_store" or not (change := makers.of(op.operands[1], "layout")):
            continue
        source, result = change.operands[0].type, change.result.type
        if isinstance(source, Tensor) and isinstance(result, Tensor) and _beside(source) and in_lines(result):
            found.add(result.encoding)
    held = (value for op in ops for value in op.results if _loaded_tile(op))
    passing = _passing(ops, buffered) if multiplying else frozenset[int]()
    return frozenset(found) - {_root(value) for value in held if value.id not in passing}


def _passing(ops: Sequence[Op], buffered: Set[int]) -> Set[int]:
    """The values, by id, that are only copied to shared memory, as they are or after computations element by
    element."""
    users, passing = users_of(ops), set(buffered)
    for op in reversed(ops):
        passing |= {
            value.id
            for value in op.results
            if value.id in users
            and all(is_elementwise(user) and user.result.id in passing for user in users[value.id])
        }
    return passing


def _is_mma(op: Op) -> bool:
    return role(op) in _MMAS


def _of_iterations(inside: Sequence[Op]) -> Sequence[Op]:
    """What a loop executes in its iterations, with MMAs of its own: the operations in it, but for those of
    loops in it; none where only these have MMAs."""
    nested = _repeated(inside)
    own = [op for op in inside if op.index not in nested]
    return own if any(map(_is_mma, own)) else ()


def _added_in_rows(ops: Sequence[Op]) -> frozenset[Encoding | None]:
    """The layouts in which threads load 16 bytes each of whole lines of rows, outside of loops, for such an
    accumulator, and compute nothing: these pass through shared memory anyway. (On an H200, SGLang's LoRA
    expansion, which adds to its output: 0.033 to 0.023 ms in tiles of 16 x 64; 0.049 to 0.036 of segments.
    With a product and a sum in that layout, fla's chunk_dplr_bwd_o_kernel 0.199 to 0.213 ms.)"""
    repeated = _repeated(ops)
    makers, found = makers_of(ops), set[Encoding | None]()
    changes = (op for op in ops if role(op) == "layout" and op.index not in repeated)
    for change in changes:
        source, result = change.operands[0].type, change.result.type
        if isinstance(source, Tensor) and isinstance(result, Tensor) and _beside(result) and in_lines(source):
            loaded = makers.of(change.operands[0], "pointer_load")
            found |= {source.encoding} if loaded else set()
    computed = (value for op in ops if is_elementwise(op) for value in op.results if is_float(value))
    return frozenset(found) - set(map(_root, computed))


def _repeated(ops: Sequence[Op]) -> frozenset[int]:
    """The operations, by index, in loops among these."""
    return frozenset(one.index for op in ops if role(op) in ("for", "while") for one in op.inner())


def _repeats(makers: Makers, op: Op) -> bool:
    """Whether it is a loop that is not known to run once."""
    if role(op) != "for":
        return role(op) == "while"
    first, end, step = (makers.number(value) for value in op.operands[:3])
    return first is None or end is None or step is None or end - first > step


def _beside(tile: Tensor) -> bool:
    """Whether warps hold columns of an accumulator beside each other."""
    layout = tile.encoding
    return isinstance(layout, NvidiaMma) and layout.version[0] == WARP_MMA and layout.warps_per_cta[-1] > 1


def in_lines(tile: Tensor) -> bool:
    """Whether each thread has 16 bytes of a row, and the lanes of a warp whole lines of it."""
    layout, size = tile.encoding, NARROW_BITS.get(element(tile), 0)
    if not isinstance(layout, Blocked) or len(tile.shape) != 2 or layout.order[0] != 1 or not size:
        return False
    own, lanes = layout.size_per_thread[1] * size, layout.threads_per_warp[1]
    return own == ACCESS and own * lanes >= LINE and layout.warps_per_cta[1] == 1


def _loaded_tile(op: Op) -> bool:
    """Whether it loads a tile of rows and columns."""
    tile = op.results[0].type if op.results else None
    return (
        role(op) == "pointer_load" and isinstance(tile, Tensor) and sum(size > 1 for size in tile.shape) > 1
    )


def _stored_one_by_one(module: Module, buffered: Set[int]) -> Iterator[Encoding | None]:
    """The layouts of tiles that are stored element by element, since nothing is known of the alignment of
    their rows, in which warps touch far fewer sectors than as an MMA has them: there lanes have every other
    column of eight rows. Not of those in which loops load tiles for more than shared memory. (On an H200,
    SGLang's LoRA expansion of queries, keys and values: 0.038 to 0.023 ms.)"""
    for function in (one for one in module.functions if valid(module, one)):
        analysis, ops = AxisAnalysis(function), [*function.walk()]
        inner = [one for op in ops if role(op) in ("for", "while") for one in op.inner()]
        loads = [one.result for one in inner if role(one) == "pointer_load"]
        computed = {_root(value) for value in loads if value.id not in buffered}
        stored = (op for op in ops if role(op) == "pointer_store" and _root(op.operands[0]) not in computed)
        yield from (_root(op.operands[0]) for op in stored if _scattered(analysis, op, module.num_warps))


def _loaded_down_columns(module: Module, buffered: Set[int]) -> Iterator[Encoding | None]:
    """The layouts of tiles that are loaded outside of loops in 16 bytes of a column, where as an MMA has them
    each thread would load every element by itself. Not of those in which loops load tiles for more than
    shared memory. (On an H200, flash-linear-attention's
    chunk_kda_bwd_kernel_dAv: 0.126 to 0.081 ms.)"""
    for function in (one for one in module.functions if valid(module, one)):
        analysis, ops = AxisAnalysis(function), [*function.walk()]
        inner = _repeated(ops)
        loads = [op for op in ops if role(op) == "pointer_load" and op.result.id not in buffered]
        computed = {_root(op.result) for op in loads if op.index in inner}
        outside = (op for op in loads if op.index not in inner and _root(op.result) not in computed)
        yield from (_root(op.result) for op in outside if _down_columns(analysis, op))


def _down_columns(analysis: AxisAnalysis, op: Op) -> bool:
    pointers, *rest = op.operands
    tile = op.result.type
    if not _wide(tile) or not isinstance(tile, Tensor) or not isinstance(tile.encoding, Blocked):
        return False
    down, across = (run_bytes(analysis, pointers, rest[:1], axis) for axis in (0, 1))
    own = tile.encoding.size_per_thread[0] * element_bytes(pointers.type)
    return len(tile.shape) == 2 and min(down, own) >= ACCESS // 8 and across <= element_bytes(pointers.type)


def _scattered(analysis: AxisAnalysis, op: Op, warps: int) -> bool:
    """Whether a store by elements touches `FEWER` times as many sectors as an MMA has its tile. Of elements
    that follow one another, threads that have 16 bytes of a row exchange them, and store these at once."""
    pointers, _, *masks = op.operands
    tile = pointers.type
    if not isinstance(tile, Tensor) or len(tile.shape) != 2 or not isinstance(tile.encoding, Blocked):
        return False
    size, apart = element_bytes(tile), step(analysis, pointers, 1)
    laid, held = distribution(tile.encoding, tile.shape), as_accumulator(tile.shape, warps)
    if not (laid and held and apart and apart.exact and apart.divisor):
        return False
    exchanged = held.serial_along(1) * size >= ACCESS // 8
    together = (run_bytes if exchanged else moved_together)(analysis, pointers, masks, 1)
    between = apart.divisor * size
    return together <= size and FEWER * _sectors(laid, between) <= _sectors(held, between)


def _sectors(held: Distribution, apart: int) -> int:
    """Of global memory that the threads touch with one element at a time, `apart` bytes from each to the next
    of a row."""
    places = {(0, 0)}
    for down, across in held.lane:
        places |= {(row ^ down, column ^ across) for row, column in places}
    touched = len({(row, column * apart // SECTOR) for row, column in places})
    return touched * held.per_thread << sum(1 for basis in held.warp if any(basis))


def _divided_by_few(ops: Sequence[Op]) -> frozenset[Encoding | None]:
    """The layouts of vectors alone in which threads divide for far fewer elements than as columns of an MMA,
    by what is no constant. The vectors that follow pass through shared memory once."""
    makers = makers_of(ops)
    tiles = [value.type for op in ops for value in op.results if isinstance(value.type, Tensor)]
    wide = {root(tile.encoding) for tile in tiles if _wide(tile)}
    divisions = [op for op in ops if role(op) in ("remainder", "divide") and not _by_constant(makers, op)]
    found = (op.result.type for op in divisions)
    return frozenset(root(one.encoding) for one in found if isinstance(one, Tensor) and _shared(one)) - wide


def _by_constant(makers: Makers, op: Op) -> bool:
    divisor = op.operands[1]
    while maker := makers.of(divisor, "splat", "broadcast", "expand", "layout", "integer_cast"):
        divisor = maker.operands[0]
    return makers.of(divisor, "constant") is not None


def _shared(tile: Tensor) -> bool:
    """Whether threads hold `DIVIDED` times as many elements of a row as columns of an MMA."""
    layout = root(tile.encoding)
    along = tile.encoding.dim == 0 if isinstance(tile.encoding, Slice) else tile.shape[0] == 1
    laid = distribution(tile.encoding, tile.shape)
    if not isinstance(layout, Blocked) or not along or laid is None:
        return False
    held = distribution(ONE_WARP, (1, tile.shape[-1]))
    return held is not None and held.per_thread >= DIVIDED * laid.per_thread


def _exchanges(held: Distribution, axis: int) -> int:
    """Of a thread for a reduction along an axis: between the lanes of a warp, and, where warps share a row,
    what it leaves for the others and reads of each."""
    warps = 1 << held.warps_along(axis)
    through_memory = 1 + warps if warps > 1 else 0
    return (held.lanes_along(axis) + through_memory) * held.serial_along(1 - axis)


def _root(value: Value) -> Encoding | None:
    return root(value.type.encoding) if isinstance(value.type, Tensor) else None


def _expressible(encoding: Encoding) -> TypeGuard[Blocked | Linear | NvidiaMma]:
    return isinstance(encoding, Blocked | Linear) or (
        isinstance(encoding, NvidiaMma) and encoding.version[0] == WARP_MMA
    )


def _of_vectors(encoding: Encoding) -> bool:
    return isinstance(encoding, Blocked) and len(encoding.order) == 1


def _exact(module: Module, named: Sequence[str]) -> Module:
    return edited(module, [_edit(module, name) for name in named]) if named else module


def _buffered(module: Module) -> frozenset[int]:
    """The values, by id, that are only copied to shared memory, in another layout or not: to buffers, and in
    loops as operands of MMAs too."""
    ops = [op for function in module.functions for op in function.walk()]
    repeated = {inner.index for op in ops if role(op) == "for" for inner in op.inner()}
    users = users_of(ops)

    def goes(op: Op) -> bool:
        if role(op) != "layout":
            return role(op) == "alloc"
        return (op.index in repeated and _copied_operand(op.result)) or copied(op.result.id)

    def copied(value: int) -> bool:
        return value in users and all(map(goes, users[value]))

    return frozenset(value for value in users if copied(value))


def _copied_operand(value: Value) -> bool:
    """Of an MMA; mma.sync takes float32 from the registers that compute it."""
    if not isinstance(value.type, Tensor) or not isinstance(value.type.encoding, DotOperand):
        return False
    parent = value.type.encoding.parent
    wide = element(value.type) == "f32"
    return not (wide and isinstance(parent, NvidiaMma) and parent.version[0] == WARP_MMA)


def _needed(op: Op, buffered: Set[int]) -> Iterable[Encoding | None]:
    """The layouts of an operation's tiles that must be as they are."""
    tiles = [value.type for value in (*op.operands, *op.results) if isinstance(value.type, Tensor)]
    if role(op) == "dot":
        yield root(op.result.type.encoding) if isinstance(op.result.type, Tensor) else None
    if any(map(deep, tiles)) or (role(op) in _RELYING and not _needless(op, buffered)):
        yield from (tile.encoding for tile in tiles)
    yield from (tile.encoding for tile in tiles if _small(tile))
    if role(op) == "broadcast" and len(tiles) == 2 and _among_columns(*tiles):
        yield tiles[1].encoding


def deep(tile: Tensor) -> bool:
    """Whether it has more dimensions than rows and columns; ones of one element count behind others."""
    begin = next((d for d, size in enumerate(tile.shape) if size > 1), len(tile.shape))
    return len(tile.shape) - begin > 2


def _among_columns(row: Tensor, tile: Tensor) -> bool:
    """Whether a row of numbers becomes a tile with too few rows for all warps, which then share its columns:
    the row alone does not say that."""
    layout = tile.encoding
    if not isinstance(layout, Blocked) or len(tile.shape) != 2 or element(tile).startswith(("i", "ptr")):
        return False
    return row.shape[0] == 1 < tile.shape[0] < 16 * prod(layout.warps_per_cta)


def _small(tile: Tensor) -> bool:
    """Whether it has too few elements for its warps to hold 16 rows and 8 columns each, or 16 where these are
    packed in pairs."""
    layout, sizes = root(tile.encoding), [size for size in tile.shape if size > 1]
    if not isinstance(layout, Blocked) or len(sizes) not in (1, 2):
        return False
    warps = prod(layout.warps_per_cta)
    down = max(1, min(warps, sizes[0] // 16))
    columns = 16 if element(tile) in NARROW else 8
    return sizes[0] < 16 or (len(sizes) == 2 and sizes[1] < columns * (warps // down))


def _needless(op: Op, buffered: Set[int]) -> bool:
    """A reshape in which only dimensions of one element come and go, or a transposition of an accumulator
    on its way to shared memory."""
    source, result = op.operands[0], op.results[0]
    if role(op) == "reshape":
        return _sizes(source) == _sizes(result)
    return (
        role(op) == "transpose"
        and result.id in buffered
        and isinstance(source.type, Tensor)
        and isinstance(root(source.type.encoding), NvidiaMma)
    )


def _sizes(value: Value) -> tuple[int, ...]:
    return tuple(size for size in value.type.shape if size > 1) if isinstance(value.type, Tensor) else ()


def _edit(module: Module, name: str) -> Edit:
    """The definition of an alias, written as an exact linear layout."""
    begin = (0 if module.text.startswith(f"{name} = ") else module.text.index(f"\n{name} = ") + 1) + len(
        f"{name} = "
    )
    encoding = module.encodings[name]
    assert _expressible(encoding)
    return Edit(begin, module.text.index("\n", begin), exact_text(encoding))


def exact_text(encoding: Blocked | Linear | NvidiaMma) -> str:
    """A layout as an exact linear one."""
    made = encoding if isinstance(encoding, Linear) else bases(encoding)
    fields = ", ".join(
        f"{key} = {_text(bits)}"
        for key, bits in (("register", made.register), ("lane", made.lane), ("warp", made.warp))
    )
    return f"#ttg.linear<{{{fields}, block = [], exact = true}}>"


def _text(bits: Bases) -> str:
    vectors = (f"[{', '.join(map(str, vector))}]" for vector in bits)
    return f"[{', '.join(vectors)}]"
