"""Block-scaled MMAs: their kinds, and how scale factors get from shared memory to tensor memory.

Takes a `ttng.tc_gen5_mma_scaled`; gives its kind of instruction and the copies (tcgen05.cp) that come before
it. Raises ValueError for scale factors that do not lie as these copies take them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.ir.loop import MemDesc, Op, Scalar, SharedLinear, Value
from twill.ops.mma import depth, inputs, packed
from twill.warp.slot_tensors import bits

CODES: Mapping[str, str] = {"e4m3": "E4M3", "e5m2": "E5M2", "e2m1": "E2M1"}
"""Of operands of kind mxf8f6f4, by format."""


@dataclass(frozen=True, slots=True)
class ScaledKind:
    """One row of the table "Valid combinations of scale_vectorsize with types and MMA-Kind" (PTX ISA)."""

    name: str
    k: int
    """Elements along K of one instruction."""
    vector: int
    """Elements along K that share a scale factor."""
    scale: str
    """Type of the scale factors."""

    @property
    def factors(self) -> int:
        """Scale factors of a row in one instruction, bytes."""
        return self.k // self.vector


KINDS = (
    ScaledKind("mxf8f6f4", 32, 32, "UE8M0"),
    ScaledKind("mxf4", 64, 32, "UE8M0"),
    ScaledKind("mxf4nvf4", 64, 16, "UE4M3"),
)
SCALE_TYPES: Mapping[str, str] = {"i8": "UE8M0", "f8E4M3FN": "UE4M3"}
"""By the element type of the buffer that holds them."""
_ROW_OF_BLOCK = ((0, 1), (0, 2), (32, 0), (64, 0), (1, 0), (2, 0), (4, 0), (8, 0), (16, 0))
"""Row and number of the scale factor at each bit of a byte's offset in a block of 512 bytes: 32 rows of 16
bytes, of which a row holds four factors of rows r, r + 32, r + 64 and r + 96 (PTX ISA, "Scale Factor A")."""


def scaled_kind(op: Op) -> ScaledKind:
    """The instruction's kind. Raises ValueError where there is none."""
    a_scales, b_scales = inputs(op)[2:]
    types = [SCALE_TYPES.get(_element(value)) for value in (a_scales, b_scales)]
    four = packed(op, 0) and packed(op, 1)
    counts = [value.type.shape[-1] for value in (a_scales, b_scales) if isinstance(value.type, MemDesc)]
    for kind in KINDS:
        vectors = {depth(op) // count for count in counts if count}
        if (kind.k == 64) == four and types == [kind.scale] * 2 and vectors == {kind.vector}:
            return kind
    raise ValueError(
        f"of {op.attributes.get('lhs')} and {op.attributes.get('rhs')} with scale factors of"
        f" {_element(a_scales)} and {_element(b_scales)}"
    )


def _element(value: Value) -> str:
    dtype = value.type.dtype if isinstance(value.type, MemDesc) else None
    return dtype.name if isinstance(dtype, Scalar) else ""


def codes(op: Op, kind: ScaledKind) -> tuple[str, str]:
    """Of A and B in the instruction descriptor. Raises ValueError."""
    if kind.k == 64:
        return "MXF4_E2M1", "MXF4_E2M1"
    a, b = (CODES.get(str(op.attributes.get(side))) for side in ("lhs", "rhs"))
    if a is None or b is None:
        raise ValueError(f"of {op.attributes.get('lhs')} and {op.attributes.get('rhs')}")
    return a, b


def copies(value: Value) -> Iterator[tuple[int, int]]:
    """The blocks of 128 rows x 4 scale factors of a buffer in shared memory: bytes from its beginning, and
    columns from the beginning of the copy in tensor memory, where the blocks of all rows come one behind the
    other before the next factors. Raises ValueError for a buffer that does not consist of such blocks."""
    kind = value.type
    assert isinstance(kind, MemDesc)
    bases = kind.encoding.offset if isinstance(kind.encoding, SharedLinear) else ()
    rows = kind.shape[-2]
    if bases[:9] != _ROW_OF_BLOCK or len(kind.shape) != 2 or bits(kind.dtype) != 8:
        raise ValueError("with scale factors that are not in blocks of 128 rows x 4")
    for number in range(1 << len(bases) - 9):
        taken = [basis for i, basis in enumerate(bases[9:]) if number >> i & 1]
        row, factor = (sum(basis[axis] for basis in taken) for axis in (0, 1))
        if row % 128 or factor % 4:
            raise ValueError("with scale factors that are not in blocks of 128 rows x 4")
        yield 512 * number, 4 * (factor // 4 * (rows // 128) + row // 128)


def scale_address(first: int, kind: ScaledKind, step: int, rows: int) -> tuple[int, int]:
    """Column, and byte in a word, of the scale factors of instruction number `step` along K, for a copy at
    column `first`."""
    number = step * kind.factors
    return first + 4 * (number // 4) * (rows // 128), number % 4
