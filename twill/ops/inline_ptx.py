"""Inline PTX of elementwise operations, executed on arrays.

Takes the text of a `tt.elementwise_inline_asm` with its constraints, and the bits of its operands; gives the
bits of its results. The text is a straight line of instructions, some of them under a predicate. Approximate
instructions give what the function rounds to. An instruction that has no row in the tables raises TwillError.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twill.diagnostics import TwillError
from twill.ops.values import Array, bits_of, of_bits, rounded, truncated

REGISTERS: Mapping[str, int] = {"f": 32, "r": 32, "n": 32, "i": 32, "h": 16, "l": 64, "d": 64}
"""Bits of an operand, by its constraint."""
_FLOATS: Mapping[str, str] = {
    **{name: name for name in ("f16", "bf16", "f32", "f64", "tf32")},
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
}
"""Element types of TTGIR, by what PTX calls them."""
_NUMBER = re.compile(r"(?:(b|u|s)(8|16|32|64)|(f16|bf16|f32|f64|tf32|e4m3|e5m2)(x2)?|pred)")
_INSTRUCTION = re.compile(
    r"(?:@(?P<not>!?)(?P<predicate>[\w%$]+)\s+)?(?P<opcode>[a-z]\w*(?:\.\w+)*)\s*(?P<rest>.*)"
)
_SCOPES = re.compile(r"^[\s{}]+")
"""Braces between statements; those of vectors stand inside of one."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def registers(text: str) -> tuple[list[str], list[str]]:
    """The constraints of results and of operands, without what marks results."""
    every = [one.strip() for one in text.split(",") if one.strip()]
    made = [one.lstrip("=&") for one in every if one.startswith("=")]
    return made, [one for one in every if not one.startswith("=")]


def run(text: str, results: int, operands: Sequence[Array]) -> list[Array]:
    """The bits of the results, as unsigned integers; of the operands those of their registers. Raises
    TwillError for what is not known."""
    size = max((len(one) for one in operands), default=1)
    scope = _Scope(size, {f"${results + i}": one.astype(np.uint64) for i, one in enumerate(operands)})
    for line in _COMMENT.sub("", text).split(";"):
        _execute(_SCOPES.sub("", line).strip(), scope)
    return [scope.registers.get(f"${i}", np.zeros(size, np.uint64)) for i in range(results)]


@dataclass(slots=True)
class _Scope:
    size: int
    registers: dict[str, Array] = field(default_factory=dict[str, Array])
    """The bits of each, by name."""

    def read(self, name: str, type: str = "b32") -> Array:
        """A register, or an immediate number of a type."""
        if name in self.registers:
            return self.registers[name]
        return np.full(self.size, _immediate(name, type), np.uint64)

    def write(self, name: str, bits: Array, holds: Array | None) -> None:
        before = self.registers.get(name, np.zeros(self.size, np.uint64))
        self.registers[name] = bits if holds is None else np.where(holds, bits, before)


def _immediate(text: str, type: str) -> int:
    """The bits of a constant. Raises TwillError for anything else, such as a special register."""
    if found := re.fullmatch(r"0[fFdD]([0-9a-fA-F]+)", text):
        return int(found[1], 16)
    try:
        if type in _FLOATS:
            return int(_bits(np.array([float(text)]), type)[0])
        return int(text, 0) & ((1 << 64) - 1)
    except ValueError:
        raise TwillError(f"inline PTX reads {text}, which can not be simulated") from None


# --- instructions -----------------------------------------------------------------------------------------


def _execute(line: str, scope: _Scope) -> None:
    if not line or line.startswith(".reg"):
        return
    found = _INSTRUCTION.fullmatch(line)
    if found is None:
        raise TwillError(f"inline PTX {line!r} can not be simulated")
    opcode, *modifiers = found["opcode"].split(".")
    target, *sources = re.findall(r"\{[^{}]*\}|[^,\s]+", found["rest"]) or [""]
    holds = None
    if found["predicate"]:
        holds = scope.read(found["predicate"]) != (1 if found["not"] else 0)
    types = [one for one in modifiers if _NUMBER.fullmatch(one)]
    row = _ROWS.get(opcode)
    if row is None or not types:
        raise TwillError(f"inline PTX instruction {found['opcode']} can not be simulated")
    one = _Instruction(found["opcode"], [m for m in modifiers if m not in types], types)
    values = [bits for source in sources for bits in _read(source, one, scope)]
    wide = 2 if "wide" in modifiers else 1
    _write(target, row(one, values), wide * _width(types[0]), scope, holds)


@dataclass(frozen=True, slots=True)
class _Instruction:
    opcode: str
    modifiers: Sequence[str]
    types: Sequence[str]
    """Of the result first."""

    def only(self, *known: str) -> None:
        """Raises TwillError for a modifier that is none of these."""
        if set(self.modifiers) - set(known):
            raise TwillError(f"inline PTX instruction {self.opcode} can not be simulated")


Row = Callable[[_Instruction, Sequence[Array]], Array]


def _width(type: str) -> int:
    found = _NUMBER.fullmatch(type)
    assert found
    if found[3] is None:
        return int(found[2] or 1)
    one = 8 if found[3][0] == "e" else int(found[3].lstrip("tbf")) if found[3] != "tf32" else 32
    return 2 * one if found[4] else one


def _read(source: str, one: _Instruction, scope: _Scope) -> list[Array]:
    """An operand; of the parts of a vector the bits one behind the other."""
    if not source.startswith("{"):
        return [scope.read(source, one.types[-1])]
    parts = re.findall(r"[^,\s{}]+", source)
    width = _width(one.types[-1]) // len(parts)
    found = np.zeros(scope.size, np.uint64)
    for i, part in enumerate(parts):
        found |= (scope.read(part) & _ones(width)) << np.uint64(i * width)
    return [found]


def _write(target: str, bits: Array, width: int, scope: _Scope, holds: Array | None) -> None:
    parts = re.findall(r"[^,\s{}]+", target)
    for i, part in enumerate(parts):
        own = width // len(parts)
        scope.write(part, (bits >> np.uint64(i * own)) & _ones(own), holds)


def _ones(width: int) -> np.uint64:
    return np.uint64((1 << width) - 1)


def _real(bits: Array, type: str) -> Array:
    """Numbers of a type from their bits, in double precision."""
    own = bits.astype(f"uint{_width(type)}")
    return of_bits(own, _FLOATS[type] if type != "tf32" else "f32").astype(np.float64)


def _bits(values: Array, type: str) -> Array:
    """The bits of numbers, rounded to nearest even."""
    name = _FLOATS[type]
    near = rounded(values, name)
    return bits_of(near, "f32" if type == "tf32" else name).astype(np.uint64)


def _whole(bits: Array, type: str) -> Array:
    """Integers of a type from their bits: signed ones with their sign."""
    own = bits.astype(f"uint{_width(type)}")
    return own.view(f"int{_width(type)}").astype(np.int64) if type[0] == "s" else own.astype(np.uint64)


def _by_halves(function: Callable[[_Instruction, Sequence[Array]], Array]) -> Row:
    """For two numbers in a register: each by itself."""

    def row(one: _Instruction, values: Sequence[Array]) -> Array:
        if not one.types[0].endswith("x2"):
            return function(one, values)
        half = _Instruction(one.opcode, one.modifiers, [name.removesuffix("x2") for name in one.types])
        width = np.uint64(_width(half.types[0]))
        low = function(half, [bits & _ones(int(width)) for bits in values])
        high = function(half, [bits >> width for bits in values])
        return low | high << width

    return row


# --- arithmetic -------------------------------------------------------------------------------------------


def _floats(function: Callable[..., Array], *extra: str) -> Row:
    """Of floats, rounded to nearest; `.ftz` takes and gives 0 for numbers without a leading 1."""

    def row(one: _Instruction, values: Sequence[Array]) -> Array:
        one.only("rn", "ftz", "sat", "approx", "full", *extra)
        kind = one.types[0]
        given = [_flushed(_real(bits, one.types[-1]), one) for bits in values]
        made = _flushed(function(*given), one)
        return _bits(np.clip(np.nan_to_num(made, nan=0.0), 0, 1) if "sat" in one.modifiers else made, kind)

    return _by_halves(row)


def _flushed(values: Array, one: _Instruction) -> Array:
    if "ftz" not in one.modifiers or one.types[0] != "f32":
        return values
    return np.where(np.abs(values) < 2.0**-126, np.copysign(0.0, values), values)


def _integers(function: Callable[..., Array]) -> Row:
    def row(one: _Instruction, values: Sequence[Array]) -> Array:
        one.only()
        made = function(*(_whole(bits, one.types[0]) for bits in values))
        return made.astype(np.uint64) & _ones(_width(one.types[0]))

    return row


def _multiplied(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def _reciprocal_root(a: Array) -> Array:
    return 1 / np.sqrt(a)


def _numbers(floats: Row, whole: Row) -> Row:
    return lambda one, values: (floats if one.types[0].removesuffix("x2") in _FLOATS else whole)(one, values)


def _shifted(function: Callable[[Array, Array], Array]) -> Row:
    """Shifts by more than the width give what shifts by the width do."""

    def row(one: _Instruction, values: Sequence[Array]) -> Array:
        one.only()
        number, by = _whole(values[0], one.types[0]), values[1] & _ones(32)
        made = function(number, np.minimum(by, np.uint64(63)).astype(number.dtype))
        beyond = (by > np.uint64(63)) & (number >= 0)
        return np.where(beyond, np.uint64(0), made.astype(np.uint64)) & _ones(_width(one.types[0]))

    return row


def _product(one: _Instruction, values: Sequence[Array]) -> Array:
    """`lo`, `hi` or `wide`; of `mad` with a sum."""
    one.only("lo", "hi", "wide")
    width, wide = _width(one.types[0]), "wide" in one.modifiers
    if width > 32 and "lo" not in one.modifiers:
        raise TwillError(f"inline PTX instruction {one.opcode} can not be simulated")
    a, b = (_whole(bits, one.types[0]) for bits in values[:2])
    made = (a * b).astype(np.int64 if one.types[0][0] == "s" else np.uint64)
    made = made >> made.dtype.type(width) if "hi" in one.modifiers else made
    for more in values[2:]:
        made = made + (more.astype(made.dtype) if wide else _whole(more, one.types[0]))
    return made.astype(np.uint64) & _ones(2 * width if wide else width)


def _lop3(one: _Instruction, values: Sequence[Array]) -> Array:
    """Any function of three bits: bit 4a + 2b + c of the table in the last operand."""
    one.only()
    a, b, c, table = values
    made = np.zeros_like(a)
    for i in range(8):
        chosen = np.where(table >> np.uint64(i) & np.uint64(1), ~np.uint64(0), np.uint64(0))
        parts = [bits if i & place else ~bits for bits, place in ((a, 4), (b, 2), (c, 1))]
        made |= chosen & parts[0] & parts[1] & parts[2]
    return made & _ones(32)


def _prmt(one: _Instruction, values: Sequence[Array]) -> Array:
    """Each byte one of the eight of two registers, or eight copies of its sign."""
    one.only()
    a, b, selector = values
    both, made = (a & _ones(32)) | (b & _ones(32)) << np.uint64(32), np.zeros_like(a)
    for i in range(4):
        which = selector >> np.uint64(4 * i) & np.uint64(15)
        byte = both >> np.uint64(8) * (which & np.uint64(7)) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        made |= np.where(which & np.uint64(8), sign, byte) << np.uint64(8 * i)
    return made


_COMPARED: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a != b) & ~_unordered(a, b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": lambda a, b: ~_unordered(a, b),
    "nan": lambda a, b: _unordered(a, b),
    **{
        f"{name}u": (lambda a, b, f=f: f(a, b) | _unordered(a, b))
        for name, f in (
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
        )
    },
}


def _unordered(a: Array, b: Array) -> Array:
    return (a != a) | (b != b)


def _setp(one: _Instruction, values: Sequence[Array]) -> Array:
    one.only("ftz", *_COMPARED)
    compared = next((_COMPARED[name] for name in one.modifiers if name in _COMPARED), None)
    if compared is None or len(values) != 2:
        raise TwillError(f"inline PTX instruction {one.opcode} can not be simulated")
    kind = one.types[0]
    real = kind in _FLOATS
    a, b = (_flushed(_real(bits, kind), one) if real else _whole(bits, kind) for bits in values)
    return compared(a, b).astype(np.uint64)


def _convert(one: _Instruction, values: Sequence[Array]) -> Array:
    """Of two numbers to a pair, the first into the upper half."""
    one.only("rn", "rna", "rz", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "satfinite", "relu")
    to, source = one.types[0], one.types[-1]
    if to.endswith("x2") and not source.endswith("x2"):
        alone = _Instruction(one.opcode, one.modifiers, [to.removesuffix("x2"), source])
        high, low = (_converted(alone, bits) for bits in values)
        return low | high << np.uint64(_width(alone.types[0]))
    if source.endswith("x2"):
        alone = _Instruction(one.opcode, one.modifiers, [to.removesuffix("x2"), source.removesuffix("x2")])
        width, own = np.uint64(_width(alone.types[1])), np.uint64(_width(alone.types[0]))
        low, high = (_converted(alone, bits) for bits in (values[0] & _ones(int(width)), values[0] >> width))
        return low | high << own
    return _converted(one, values[0])


def _converted(one: _Instruction, bits: Array) -> Array:
    to, source = one.types
    given = _real(bits, source) if source in _FLOATS else _whole(bits, source)
    if source in _FLOATS and "relu" in one.modifiers:
        given = np.maximum(given, 0)
    if to in _FLOATS:
        if "rna" in one.modifiers:
            return _half_away(bits)
        return _towards_zero(given, to) if "rz" in one.modifiers else _bits(given, to)
    if source in _FLOATS:
        whole = next((_WHOLE[name] for name in one.modifiers if name in _WHOLE), None)
        if whole is None:
            raise TwillError(f"inline PTX instruction {one.opcode} can not be simulated")
        limits = np.iinfo(f"{'int' if to[0] == 's' else 'uint'}{_width(to)}")
        near = np.nan_to_num(whole(given), nan=0.0)
        made = [min(max(int(value), limits.min), limits.max) & limits.max * 2 + 1 for value in near]
        return np.array(made, np.uint64) & _ones(_width(to))
    return given.astype(np.uint64) & _ones(_width(to))


_WHOLE: Mapping[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _towards_zero(values: Array, type: str) -> Array:
    if type in ("f32", "f64", "tf32"):
        raise TwillError(f"inline PTX conversion to {type} towards zero can not be simulated")
    return bits_of(truncated(values, _FLOATS[type]), _FLOATS[type]).astype(np.uint64)


def _half_away(bits: Array) -> Array:
    """f32 with ten bits of mantissa, a tie away from zero."""
    bits, lower = bits.astype(np.uint32), np.uint32((1 << 13) - 1)
    values = bits.view(np.float32)
    near = np.where(np.isinf(values), bits, (bits + np.uint32(1 << 12)) & ~lower)
    return np.where(np.isnan(values), np.uint32(0x7FFFFFFF) & ~lower, near).astype(np.uint64)


def _as_it_is(one: _Instruction, values: Sequence[Array]) -> Array:
    one.only()
    return values[0] & _ones(_width(one.types[0]))


def _selected(one: _Instruction, values: Sequence[Array]) -> Array:
    one.only()
    return np.where(values[2] != 0, values[0], values[1])


_ROWS: Mapping[str, Row] = {
    "mov": _as_it_is,
    "add": _numbers(_floats(np.add), _integers(np.add)),
    "sub": _numbers(_floats(np.subtract), _integers(np.subtract)),
    "mul": _numbers(_floats(np.multiply), _product),
    "mad": _numbers(_floats(_multiplied), _product),
    "fma": _floats(_multiplied),
    "div": _floats(np.divide),
    "neg": _numbers(_floats(np.negative), _integers(np.negative)),
    "abs": _numbers(_floats(np.abs), _integers(np.abs)),
    "min": _numbers(_floats(np.fmin), _integers(np.minimum)),
    "max": _numbers(_floats(np.fmax), _integers(np.maximum)),
    "and": _integers(np.bitwise_and),
    "or": _integers(np.bitwise_or),
    "xor": _integers(np.bitwise_xor),
    "not": _integers(np.invert),
    "shl": _shifted(np.left_shift),
    "shr": _shifted(np.right_shift),
    "lop3": _lop3,
    "prmt": _prmt,
    "setp": _setp,
    "selp": _selected,
    "cvt": _convert,
    "ex2": _floats(np.exp2),
    "lg2": _floats(np.log2),
    "rcp": _floats(np.reciprocal),
    "sqrt": _floats(np.sqrt),
    "rsqrt": _floats(_reciprocal_root),
    "sin": _floats(np.sin),
    "cos": _floats(np.cos),
    "tanh": _floats(np.tanh),
}
"""By the opcode without its modifiers."""
