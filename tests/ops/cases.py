"""Every elementwise row of the table with every element type that it has CUDA for: single operations, their C
functions, and the values to try them on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from twill.diagnostics import Location
from twill.ir.loop import Attribute, AttributeSlot, Op, Scalar, SourceSpan, Value
from twill.ops import math as functions
from twill.ops.c import C_TYPES, NARROW, WIDTHS
from twill.ops.row import Row
from twill.ops.table import TABLE
from twill.ops.values import Array, bits_of, dtype, of_bits, rounded

INTEGERS = ("i1", "i8", "i16", "i32", "i64", "index")
FLOATS = ("f16", "bf16", "f32", "f64")
EIGHT = ("f8E4M3FN", "f8E5M2")
PREDICATES = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": (
        *("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
        *("true", "false"),
    ),
}
ELSEWHERE = frozenset(
    {
        *(
            "tt.get_program_id",
            "tt.get_num_programs",
            "tt.addptr",
            "tt.int_to_ptr",
            "tt.ptr_to_int",
            "ub.poison",
        ),
        "tt.elementwise_inline_asm",
        "ttg.fp4_to_fp",
    }
)
"""Rows whose C needs a kernel around it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on elements of some types."""

    row: Row
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    def __str__(self) -> str:
        words = "".join(f" {value}" for value in self.attributes.values())
        return f"{self.row.name}{words} : {', '.join(self.operands)} -> {', '.join(self.results)}"

    @property
    def op(self) -> Op:
        operands = tuple(Value(i, f"%{i}", Scalar(name)) for i, name in enumerate(self.operands))
        results = tuple(Value(10 + i, f"%{10 + i}", Scalar(name)) for i, name in enumerate(self.results))
        place, slot = Location("case", 1), AttributeSlot(0, None)
        return Op(0, self.row.name, operands, results, self.attributes, (), place, SourceSpan(0, 0), slot)

    def texts(self) -> tuple[str, ...] | None:
        """The C expressions of its results; None where the row has none for these types."""
        given = [f"float(a{i}[i])" if name in NARROW else f"a{i}[i]" for i, name in enumerate(self.operands)]
        assert self.row.c is not None
        found = [expression(self.op, given) for expression in (self.row.c, *self.row.further)]
        return None if None in found else tuple(text for text in found if text is not None)

    def function(self, name: str) -> str:
        """A C function of arrays."""
        texts = self.texts()
        assert texts is not None
        inputs = [f"const {C_TYPES[kind]}* a{i}" for i, kind in enumerate(self.operands)]
        outputs = [f"{C_TYPES[kind]}* r{i}" for i, kind in enumerate(self.results)]
        body = " ".join(
            f"r{i}[i] = {C_TYPES[kind]}({text});"
            for i, (kind, text) in enumerate(zip(self.results, texts, strict=True))
        )
        return (
            f'extern "C" void {name}({", ".join([*inputs, *outputs])}, int n) {{ for (int i = 0; i < n; ++i)'
            f" {{ {body} }} }}"
        )

    def values(self) -> tuple[Array, ...]:
        """Every combination of the edge values of its operands, but those that have no result."""
        edges = [
            EDGES[name] if len(self.operands) < 3 else EDGES[name][:: max(1, len(EDGES[name]) // 13)]
            for name in self.operands
        ]
        grid = tuple(np.ascontiguousarray(axis.reshape(-1)) for axis in np.meshgrid(*edges, indexing="ij"))
        return tuple(one[self._defined(grid)] for one in grid)

    def _defined(self, grid: tuple[Array, ...]) -> Array:
        """No division by zero; no bits of a narrow float that the register holding it as `float` does not
        keep: NaN is canonical, infinities of f8E5M2 saturate."""
        if self.row.name.endswith("bitcast") and set(self.operands + self.results) & NARROW:
            return np.isfinite(grid[0]) & ~np.isin(bits_of(grid[0], self.operands[0]), (0x7C, 0xFC))
        if self.row.name.startswith(DIVISIONS):
            least = np.iinfo(grid[0].dtype).min
            return (grid[1] != 0) & ~((grid[0] == least) & (grid[1] == -1))
        return np.ones(grid[0].shape, bool)


DIVISIONS = tuple(f"arith.{name}i" for name in ("divs", "divu", "rems", "remu", "floordivs", "ceildivs"))
_WHOLE = (0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, -1, -2, -5, -7, -100)


def _integers(name: str) -> Array:
    if name == "i1":
        return np.array([False, True])
    bits, kind = WIDTHS[name], dtype(name)
    special = [
        2 ** (bits - 1) - 1,
        -(2 ** (bits - 1)),
        -(2 ** (bits - 1)) + 1,
        0x55 if bits == 8 else 0x5555,
        bits - 1,
        bits,
    ]
    some = np.random.default_rng(1).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 8)
    return np.unique(
        np.array(
            [n for n in (*_WHOLE, *special, *some.tolist()) if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)],
            kind,
        )
    )


_NUMBERS = (
    *(
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        3.0,
        0.1,
        3.14159265,
        0.75,
        1e-3,
        10.0,
        20.25,
        127.5,
        128.5,
        255.5,
        448.0,
        464.0,
        480.0,
        1000.7,
        57344.0,
    ),
    *(
        61440.0,
        65504.0,
        65520.0,
        2.0**24 + 2,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
        1e10,
        1e-10,
        0.49999997,
        3e38,
        float("inf"),
    ),
)


def _floats(name: str) -> Array:
    kind = {"bf16": np.float32}.get(name, dtype(name))
    info = np.finfo(kind)
    special = (
        [float(info.smallest_subnormal) * 3, float(info.tiny), float(info.max)]
        if name != "bf16"
        else [1e-40, 1.2e-38, 3.3e38]
    )
    wide = np.array([sign * x for x in (*_NUMBERS, *special) for sign in (1, -1)] + [np.nan])
    with np.errstate(over="ignore"):
        found = rounded(wide, name)
    return _distinct(found)


def _distinct(values: Array) -> Array:
    """Without repetitions; zeros of both signs are two values."""
    bits = values.view(f"uint{8 * values.dtype.itemsize}")
    return values[np.sort(np.unique(bits, return_index=True)[1])]


EDGES: Mapping[str, Array] = {
    **{name: _integers(name) for name in INTEGERS},
    **{name: _floats(name) for name in FLOATS},
    **{name: of_bits(np.arange(256, dtype=np.uint8), name) for name in EIGHT},
}

# --- which there are ---------------------------------------------------------------------------------------


def cases() -> tuple[Case, ...]:
    """Every case that has CUDA."""
    return tuple(
        case
        for row in TABLE.values()
        if row.c and row.name not in ELSEWHERE
        for case in _of(row)
        if case.texts()
    )


def _of(row: Row) -> Iterator[Case]:
    name = row.name
    if name in PREDICATES:
        types = INTEGERS if name == "arith.cmpi" else FLOATS
        yield from (Case(row, (t, t), ("i1",), {"predicate": p}) for t, p in product(types, PREDICATES[name]))
    elif name == "arith.select":
        yield from (Case(row, ("i1", t, t), (t,)) for t in (*INTEGERS, *FLOATS))
    elif name == "tt.clampf":
        yield from (
            Case(row, (t, t, t), (t,), {"propagateNan": word}) for t, word in product(FLOATS, ("none", "all"))
        )
    elif name == "tt.extern_elementwise":
        yield from _libdevice(row)
    elif name in CASTS:
        yield from _casts(row)
    elif name.startswith("math.is"):
        yield from (Case(row, (t,), ("i1",)) for t in FLOATS)
    else:
        arity = row.syntax.operands
        results = 1 + len(row.further)
        yield from (Case(row, (t,) * arity, (t,) * results) for t in _types(row))


def _types(row: Row) -> tuple[str, ...]:
    """Of arithmetic: floats or integers, whichever the row means."""
    whole = row.name.endswith(("i", "absi", "ctpop", "ctlz", "cttz", "_extended")) or row.name.startswith(
        "arith.shr"
    )
    return INTEGERS if whole else FLOATS


CASTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(["arith.extsi", "arith.extui", "arith.trunci"], (INTEGERS, INTEGERS)),
    **dict.fromkeys(["arith.index_cast", "arith.index_castui"], (INTEGERS, INTEGERS)),
    **dict.fromkeys(["arith.sitofp", "arith.uitofp"], (INTEGERS, FLOATS)),
    **dict.fromkeys(["arith.fptosi", "arith.fptoui"], (FLOATS, INTEGERS[1:])),
    **dict.fromkeys(["arith.extf", "arith.truncf", "tt.fp_to_fp"], ((*FLOATS, *EIGHT), (*FLOATS, *EIGHT))),
    **dict.fromkeys(
        ["arith.bitcast", "tt.bitcast"], ((*INTEGERS, *FLOATS, *EIGHT), (*INTEGERS, *FLOATS, *EIGHT))
    ),
}
_BITS = {**WIDTHS, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8}


def _casts(row: Row) -> Iterator[Case]:
    for source, result in product(*CASTS[row.name]):
        narrower, wider = _BITS[source] > _BITS[result], _BITS[source] < _BITS[result]
        match row.name.split(".")[1]:
            case "extsi" | "extui" | "extf" if not wider:
                continue
            case "trunci" | "truncf" if not narrower:
                continue
            case "bitcast" if narrower or wider:
                continue
            case "index_cast" | "index_castui" if "index" not in (source, result) or source == result:
                continue
            case _:
                pass
        words: tuple[dict[str, Attribute], ...] = ({},)
        if row.name == "tt.fp_to_fp":
            words = ({}, {"rounding": "rtne"}, {"rounding": "rtz"})
        yield from (
            Case(row, (source,), (result,), word)
            for word in words
            if source != result or row.name == "tt.bitcast"
        )


def _libdevice(row: Row) -> Iterator[Case]:
    for symbol in functions.LIBDEVICE:
        kind = "f32" if symbol.endswith(("f", "_rn")) and symbol != "__nv_erf" else "f64"
        arity = 2 if any(word in symbol for word in TWO) else 1
        second = "i32" if "powi" in symbol else kind
        yield Case(row, (kind, second)[:arity], (kind,), {"symbol": symbol})


TWO = ("pow", "atan2", "copysign", "fmod", "hypot", "fmax", "fmin", "fdiv", "fdividef")
