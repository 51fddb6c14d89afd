"""Operations that are no work of their own: the rules that fold them into those that use them.

Takes a `Body` and the names of the rules allowed; gives for every operation its kind, and which operations
are folded away by which rule. Guarantees that only operations that move and compute nothing, or whose work
the user does anyway, are ever folded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from twill.extract.dependence.body import Body
from twill.extract.dependence.tiles import dtype_name
from twill.ir.distribution import distribution, root
from twill.ir.graph import Kind
from twill.ir.loop import DotOperand, Linear, MemDesc, Op, Pointer, Scalar, Tensor, TensorDesc, Type, Value
from twill.ops.table import role, row

FOLDS: Mapping[str, str] = {
    "constant": "constants are part of the instruction that uses them",
    "scalar": "scalar code (counters, coordinates, flags) runs in parallel with the tiles",
    "address": (
        "index and pointer arithmetic that only addresses memory, or is the same row of numbers for every"
        " thread"
    ),
    "view": "views, broadcasts and reshapes move nothing",
    "layout": "a convert_layout after which every thread holds what it held",
    "load": "a local_alloc of a loaded tile: the load puts it in shared memory at once",
    "staging": "a convert_layout before a TMA store: the store passes through shared memory anyway",
    "operand": (
        "an MMA operand whose elements change threads is written to shared memory and read there by the"
        " tensor core"
    ),
    "fragment": "a local_load of a buffer from before the loop: MMAs read their operand from there",
}
"""The folding rules by name, and why each is right."""


@dataclass(frozen=True, slots=True)
class Folding:
    """What became of every operation of a body."""

    kinds: Mapping[int, Kind]
    """By `Op.index`."""
    candidates: Mapping[int, str]
    """The rule that could fold it, by `Op.index`."""
    rules: tuple[str, ...]
    """The rules allowed."""

    def away(self, op: Op) -> bool:
        """Folded: no node."""
        return self.candidates.get(op.index) in self.rules

    def fragment(self, op: Op | None) -> bool:
        """What MMAs read from shared memory in every iteration (rule `fragment`)."""
        return op is not None and role(op) == "buffer_load" and self.away(op)

    def moves_nothing(self, op: Op) -> bool:
        """Folded or not, its result lies where its operand lies."""
        return self.kinds[op.index] == "view"

    def index_code(self, op: Op) -> bool:
        """Folded, or would be if its rule were allowed: nothing a load has to wait for."""
        return op.index in self.candidates


def fold(body: Body, rules: tuple[str, ...]) -> Folding:
    """Classify every operation. Raises TwillError at an operation that cannot be scheduled."""
    classifier = _Classifier(body, rules)
    found = {op.index: classifier.classify(op) for op in body.ops}
    kinds: dict[int, Kind] = {index: kind for index, (kind, _) in found.items()}
    return Folding(kinds, {index: rule for index, (_, rule) in found.items() if rule is not None}, rules)


@dataclass(frozen=True, slots=True)
class _Classifier:
    body: Body
    rules: tuple[str, ...]
    addresses: set[int] = field(default_factory=set[int])
    """Operations found so far that only serve addresses, by `Op.index`."""

    def classify(self, op: Op) -> tuple[Kind, str | None]:
        """The kind of an operation, and the rule under which it is no work of its own."""
        kind = row(op).kind
        if row(op).role in ("constant", "poison"):
            return "view", "constant"
        if kind in ("elementwise", "view", "scalar") and _scalar(op):
            return "scalar", "scalar"
        if self._address(op):
            return kind if kind == "view" else "elementwise", "address"
        match kind:
            case "view":
                return "view", "view"
            case "convert" if row(op).role == "layout":
                return self._convert(op)
            case "shared_load" if self._fragment(op):
                return "view", "fragment"
            case "shared_store" | "tensor_store" if row(op).access == "alloc":
                return self._alloc(op, kind)
            case _:
                return kind, None

    def _convert(self, op: Op) -> tuple[Kind, str | None]:
        source, target = op.operands[0], op.result
        read_there = self._loaded(source) and not rearranged(self.body, target)
        if read_there or stays_in_threads(source.type, target.type):
            return "view", "layout"
        readers = self.body.readers(target)
        if readers and all(role(reader) in ("tma_store", "tma_reduce") for reader in readers):
            return ("view" if "staging" in self.rules else "convert"), "staging"
        if (
            isinstance(target.type, Tensor)
            and isinstance(target.type.encoding, DotOperand)
            and "operand" in self.rules
            and not isinstance(root(target.type.encoding), Linear)
        ):
            return "shared_store", None
        return "convert", None

    def _fragment(self, op: Op) -> bool:
        """An operand of MMAs that lies in shared memory throughout the loop."""
        readers = self.body.readers(op.result)
        outside = self.body.owner(self.body.trace(op.operands[0])[0]) is None
        return outside and bool(readers) and all(role(reader) == "dot" for reader in readers)

    def _alloc(self, op: Op, kind: Kind) -> tuple[Kind, str | None]:
        contents = [v for v in op.operands if isinstance(v.type, Tensor)]
        if not contents:
            return "view", "view"
        at_once = kind == "shared_store" and self._loaded(contents[0], _all_of_it)
        return ("view", "load") if at_once else (kind, None)

    def _loaded(self, value: Value, seen: Callable[[Op], bool] = lambda op: True) -> bool:
        """A tile straight from global memory, through changes of layout and such views only."""
        origins = self.body.origins(
            value, lambda op: (row(op).kind == "view" or role(op) == "layout") and seen(op)
        )
        return len(origins) == 1 and row(origins[0].op).access == "load"

    def _address(self, op: Op) -> bool:
        return _index_code(op) and (self._row_of_numbers(op) or self._only_addresses(op))

    def _row_of_numbers(self, op: Op) -> bool:
        """At most one dimension, and known from the loop counter alone, not from what the loop computes or
        keeps."""
        extents = [
            size for v in op.results if isinstance(v.type, Tensor) for size in v.type.shape if size > 1
        ]
        return len(extents) <= 1 and not any(self.body.origins(v, _index_code) for v in op.operands)

    def _only_addresses(self, op: Op) -> bool:
        """Whatever becomes of its results, through index code, is an address or a mask in the end."""
        waiting, seen = [op], {op.index}
        while waiting and op.index not in self.addresses:
            results = waiting.pop().results
            if any(self.body.outlives(value) for value in results):
                return False
            for reader in (
                r for value in results for r in self.body.readers(value) if not _address_operand(r, value)
            ):
                if not _index_code(reader):
                    return False
                if reader.index not in seen and reader.index not in self.addresses:
                    seen.add(reader.index)
                    waiting.append(reader)
        self.addresses.update(seen)
        return True


def _scalar(op: Op) -> bool:
    types = [v.type for v in (*op.operands, *op.results)]
    return all(isinstance(t, Scalar | Pointer | TensorDesc) for t in types)


def _index_code(op: Op) -> bool:
    """Pure arithmetic that gives integers or pointers."""
    pure = row(op).kind in ("elementwise", "view", "scalar") or role(op) == "layout"
    return pure and bool(op.results) and all(_index_type(v.type) for v in op.results)


def _index_type(type: Type) -> bool:
    match type:
        case Tensor(dtype=dtype):
            return _index_type(dtype)
        case Scalar():
            return dtype_name(type).startswith(("i", "ui", "si"))
        case Pointer() | TensorDesc():
            return True
        case _:
            return False


def _address_operand(op: Op, value: Value) -> bool:
    """`value` is an address or a mask of `op`, not what it writes."""
    match row(op).access:
        case "load":
            return True
        case "store" | "reduce":
            return len(op.operands) < 2 or value.id != op.operands[1].id
        case _:
            return False


def _all_of_it(op: Op) -> bool:
    """A view of all elements of a tile, each once and of its own type: not of a half, and not repeated."""
    if role(op) == "bitcast":
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return len(types) == 2 and len({prod(one.shape) for one in types if isinstance(one, Tensor)}) == 1


def rearranged(body: Body, value: Value) -> bool:
    """An MMA takes a tile in registers turned, or with its rows and columns counted otherwise, which a matrix
    descriptor can not say of it in shared memory."""
    views = (one for one in body.readers(value) if role(one) in ("reshape", "transpose"))
    tiles = [one.result for one in views if isinstance(one.result.type, Tensor)]
    taken = any(role(one) == "wgmma" for tile in tiles for one in body.readers(tile))
    return taken or any(rearranged(body, tile) for tile in tiles)


def stays_in_threads(source: Type, target: Type) -> bool:
    """Every thread holds the same elements of a tile in both layouts."""
    match source, target:
        case Tensor(shape, _, one), Tensor(_, _, other):
            here, there = distribution(one, shape), distribution(other, shape)
            return one == other or (here is not None and there is not None and here.moves_nothing_to(there))
        case _:
            return False


def buffer(value: Value) -> bool:
    """A view of shared or tensor memory."""
    return isinstance(value.type, MemDesc)
