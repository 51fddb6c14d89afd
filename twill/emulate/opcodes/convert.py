"""mov, cvt and their kin (PTX ISA, "Data Movement and Conversion", mov, cvt, cvt.pack, cvta)."""

from collections.abc import Callable, Mapping

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, natural, step
from twill.emulate.machine.warp import CODES, Warp, size
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import FORMATS, bf16_codes, bf16_values, decode, encode
from twill.emulate.numeric.rounding import flushed, narrowed
from twill.emulate.opcodes.integer import type_of
from twill.emulate.opcodes.lift import get, lift, put
from twill.emulate.opcodes.windows import CVTA
from twill.emulate.ptx.syntax import Instruction, Operand, Register, Vector

# --- mov ---------------------------------------------------------------------------------------------------


@step("mov")
def _mov(one: Instruction, decoder: Decoder) -> Step:
    dtype, (target, source) = type_of(one), one.operands
    if isinstance(target, Vector):
        return _unpack(target, decoder.source(source, dtype), decoder)
    if isinstance(source, Vector):
        alone = isinstance(target, Register) and decoder.writers[target.name] == 1
        return _pack(decoder.target(target, dtype), source, decoder, alone=alone)
    to, by = decoder.target(target, dtype), decoder.source(source, dtype)
    if size(dtype) == 128:
        return lift(np.positive, to, [by])
    return _copy(
        Ref(natural(size(dtype), "b"), to.code, to.index), Ref(natural(size(dtype), "b"), by.code, by.index)
    )


def _copy(to: Ref, by: Ref) -> Step:
    dtype, code, target, source = to.type, to.code, to.index, by.index

    def run(warp: Warp) -> None:
        rows, valid = warp.views[dtype], warp.valid[code]
        if warp.full:
            rows[target][...] = rows[source]
            valid[target] = valid[source]
        else:
            put(warp, to, rows[source], valid[source])

    return run


def _parts(items: tuple[Operand, ...], whole: int, decoder: Decoder) -> list[Ref]:
    width = whole // len(items)
    dtype = natural(max(16, width), "b")
    return [decoder.target(item, dtype) for item in items]


def _unpack(target: Vector, source: Ref, decoder: Decoder) -> Step:
    """The parts of a register, lowest first."""
    whole = next(bits for bits, code in CODES.items() if code == source.code)
    refs, width = _parts(target.items, whole, decoder), whole // len(target.items)
    kind = np.dtype(f"uint{width}")

    def run(warp: Warp) -> None:
        parts = warp.files[whole][source.index].view(kind).reshape(32, -1)
        valid = warp.valid[source.code][source.index]
        packed = _defined_parts(warp).get((source.code, source.index), ())
        known = [valid | one for one in packed] if len(packed) == len(refs) else [valid] * len(refs)
        for i, ref in enumerate(refs):
            put(warp, ref, parts[:, i].copy(), known[i])

    return run


def _defined_parts(warp: Warp) -> dict[tuple[int, int], tuple[int, ...]]:
    """By code and index of a register that was packed from parts of which some are undefined: the lanes in
    which each part is defined."""
    return warp.state.setdefault("packed", {})


def _pack(target: Ref, source: Vector, decoder: Decoder, *, alone: bool) -> Step:
    """A register from parts. Where nothing else writes it (`alone`), those of its parts that are defined may
    be unpacked though others are not."""
    whole = next(bits for bits, code in CODES.items() if code == target.code)
    width = whole // len(source.items)
    refs = [decoder.source(item, natural(max(16, width), "b")) for item in source.items]
    kind = np.dtype(f"uint{width}")

    def run(warp: Warp) -> None:
        made, valid = np.empty((32, len(refs)), kind), warp.mask
        for i, ref in enumerate(refs):
            made[:, i] = get(warp, ref)
            valid &= warp.valid[ref.code][ref.index]
        if alone and (valid != warp.mask or (target.code, target.index) in _defined_parts(warp)):
            old = _defined_parts(warp).get((target.code, target.index), (0,) * len(refs))
            now = [warp.valid[ref.code][ref.index] for ref in refs]
            _defined_parts(warp)[target.code, target.index] = tuple(
                before & ~warp.mask | after & warp.mask for before, after in zip(old, now, strict=True)
            )
        put(warp, target, made.reshape(-1).view(f"uint{min(whole, 64)}"), valid)

    return run


@step("cvta")
def _cvta(one: Instruction, decoder: Decoder) -> Step:
    """Between a space's own addresses and generic ones."""
    towards = "to" in one.modifiers
    space = next(part.partition("::")[0] for part in one.modifiers if part.partition("::")[0] in CVTA)
    window = CVTA[space]
    dtype = type_of(one)
    source, target = decoder.source(one.operands[1], "u64"), decoder.target(one.operands[0], "u64")
    if dtype != "u64":
        raise ValueError("addresses of 32 bits")
    offset = np.uint64(window)

    def run(a: Array) -> Array:
        return a - offset if towards else a.astype(np.uint64) + offset

    return lift(run, target, [source])


# --- cvt --------------------------------------------------------------------------------------------------

_TO_INTEGER: Mapping[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_FLOATS = ("f16", "bf16", "f32", "f64")
_PACKED = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2)} | {
    f"{name}x{count}": (name, count)
    for name in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue8m0")
    for count in (2, 4)
}


def _range(dtype: str) -> tuple[int, int]:
    bits = int(dtype[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def _from_integer(dtype: str) -> Callable[[Array], Array]:
    """Of a register of any size, the low bits as the type has them."""
    bits, signed = int(dtype[1:]), dtype[0] == "s"

    def run(a: Array) -> Array:
        word = a.view(f"uint{a.dtype.itemsize * 8}").astype(np.uint64)
        if bits == 64:
            return word.view(np.int64) if signed else word
        low = (word & np.uint64((1 << bits) - 1)).astype(np.int64)
        return low - ((low >> bits - 1) << bits) if signed else low

    return run


def _values(a: Array, dtype: str) -> Array:
    """float64 of a float type."""
    match dtype:
        case "bf16":
            return bf16_values(a).astype(np.float64)
        case _:
            return a.astype(np.float64)


def _real_to_integer(dtype: str, source: str, mode: str) -> Callable[[Array], Array]:
    """What is too large becomes the largest value. NaN becomes 0, or the sign bit alone
    from f64 and to 64 bits (PTX ISA, cvt)."""
    low, high = _range(dtype)
    bits = int(dtype[1:])
    nan = (low or 1 << bits - 1) if source == "f64" or bits == 64 else 0

    def run(values: Array) -> Array:
        near = _TO_INTEGER[mode](values)
        limited = np.where(np.isnan(near), float(nan), np.clip(near, low, high))
        if high < 1 << 53:
            return limited.astype(np.int64)
        top = near >= float(high)
        whole = np.where(top, 0, limited)
        made = whole.astype(np.int64 if low else np.uint64)
        return np.where(top, made.dtype.type(high), made)

    return run


def _to_real(dtype: str, mode: str) -> Callable[[Array], Array]:
    """float64 to a float type's register."""
    if dtype == "f64":
        return lambda values: values
    if dtype == "f32":
        return lambda values: narrowed(values, mode)
    if dtype == "f16":
        return lambda values: narrowed(values, mode, "float16")
    return lambda values: encode(values, dtype, mode)


def _integer_to_real(source: str, dtype: str, mode: str) -> Callable[[Array], Array]:
    """Integers of 64 bits have more digits than a float64."""
    wide = source in ("u64", "s64")

    def run(values: Array) -> Array:
        if wide and dtype in ("f32", "f64") and mode == "rn":
            return values.astype(f"float{dtype[1:]}")
        near = values.astype(np.float64)
        if wide:
            lost = np.array([int(v) - int(n) for v, n in zip(values, near, strict=True)], np.float64)
            from twill.emulate.numeric.rounding import odd

            near = odd(near, lost)
        return _to_real(dtype, mode)(near)

    return run


def _rounding(one: Instruction) -> str:
    return next((part for part in one.modifiers if part in ("rn", "rz", "rm", "rp", "rna", "rs")), "rn")


def conversion(one: Instruction, to: str, by: str) -> Callable[[Array], Array]:
    """Of one value. Raises KeyError and ValueError for a form that is not known."""
    ftz, sat, mode = "ftz" in one.modifiers, "sat" in one.modifiers, _rounding(one)
    if mode == "rs":
        raise ValueError("stochastic rounding")
    whole = next((part for part in one.modifiers if part in _TO_INTEGER), None)
    if by in _FLOATS:
        return _from_real(to, by, mode, whole, ftz, sat, one)
    read = _from_integer(by)
    if to in _FLOATS:
        make = _integer_to_real(by, to, mode)
        return lambda a: make(read(a))
    if sat:
        low, high = _range(to)
        return lambda a: np.clip(read(a).astype(object), low, high).astype(
            np.int64 if high < 1 << 63 else np.uint64
        )
    if int(to[1:]) < int(by[1:]):  # a register that is wider than the type takes its sign
        narrow = _from_integer(to)
        return lambda a: narrow(read(a))
    return read


def _from_real(
    to: str, by: str, mode: str, whole: str | None, ftz: bool, sat: bool, one: Instruction
) -> Callable[[Array], Array]:
    def values(a: Array) -> Array:
        return _values(flushed(a) if ftz and by == "f32" else a, by)

    if to == "tf32":
        finite = "satfinite" in one.modifiers
        return lambda a: _tf32(values(a), mode, finite, "relu" in one.modifiers)
    if to not in _FLOATS:
        make = _real_to_integer(to, by, whole or "rni")
        return lambda a: make(values(a))
    make = _to_real(to, mode)
    relu = "relu" in one.modifiers

    def run(a: Array) -> Array:
        found = values(a)
        if whole:
            found = _TO_INTEGER[whole](found)
        if sat:
            found = np.where(np.isnan(found), 0.0, np.clip(found, 0.0, 1.0))
        if relu:
            found = np.where(found < 0, 0.0, found)
        if "satfinite" in one.modifiers:
            return (
                encode(found, to, mode, finite=True)
                .astype(np.uint16)
                .view(np.float16 if to == "f16" else np.uint16)
            )
        made = make(found)
        return flushed(made) if ftz and to == "f32" else made

    return run


def _tf32(values: Array, mode: str, finite: bool, relu: bool) -> Array:
    """The bits of a float32 with 10 bits of fraction."""
    found = np.where(values < 0, 0.0, values) if relu else values
    return (encode(found, "tf32", mode, finite=finite) << 13).astype(np.uint32)


@step("cvt")
def _cvt(one: Instruction, decoder: Decoder) -> Step:
    to, by = one.modifiers[-2:]
    if to in _PACKED or by in _PACKED or (to in FORMATS and to not in _FLOATS and to != "tf32"):
        return _packed(one, decoder, to, by)
    target, source = one.operands
    fn = conversion(one, to, by)
    into, out = (
        _register(target, to, decoder),
        decoder.source(source, by if by in _FLOATS else f"u{max(16, int(by[1:]))}"),
    )
    if out.type[0] in "bus" and by not in _FLOATS:
        out = Ref(f"u{_width(out)}", out.code, out.index)
    return lift(_fast(one) or fn, into, [out])


def _fast(one: Instruction) -> Callable[[Array], Array] | None:
    """What NumPy does as it stands."""
    if one.opcode in (
        "cvt.f32.f16",
        "cvt.u64.u32",
        "cvt.u32.u64",
        "cvt.rn.f16.f32",
        "cvt.f64.f32",
        "cvt.rn.f32.f64",
    ):
        return np.positive
    if one.opcode == "cvt.f32.bf16":
        return bf16_values
    if one.opcode == "cvt.rn.bf16.f32":
        return bf16_codes
    return None


def _width(ref: Ref) -> int:
    return next(bits for bits, code in CODES.items() if code == ref.code)


def _register(operand: Operand, dtype: str, decoder: Decoder) -> Ref:
    """The target of a conversion: a register that may be wider than the type, and then takes its sign."""
    if isinstance(operand, Register) and dtype not in (*_FLOATS, "tf32"):
        return Ref(f"{'s' if dtype[0] == 's' else 'u'}{operand.bits}", CODES[operand.bits], operand.index)
    return decoder.target(operand, "b32" if dtype == "tf32" else dtype)


def _packed(one: Instruction, decoder: Decoder, to: str, by: str) -> Step:
    """cvt between packed formats: the first operand becomes the highest part."""
    if by in _PACKED:
        return _unpacked(one, decoder, to, by)
    name, count = _PACKED[to]
    mode, finite, relu = _rounding(one), "satfinite" in one.modifiers, "relu" in one.modifiers
    operands = one.operands[1].items if isinstance(one.operands[1], Vector) else one.operands[1:]
    if by != "f32" or len(operands) != count or mode == "rs":
        raise ValueError(f"packing {by} in {to}")
    refs = [decoder.source(operand, "f32") for operand in reversed(operands)]
    width = {"f16": 16, "bf16": 16}.get(name, 4 if name == "e2m1" else 8)
    target = decoder.target(one.operands[0], natural(max(16, width * count), "u"))
    if name in _PACKS and not relu and not finite and mode == "rn":
        return _PACKS[name](target, refs)

    def run(warp: Warp) -> None:
        word, valid = np.zeros(32, np.uint32), warp.mask
        for i, ref in enumerate(refs):
            values = get(warp, ref).astype(np.float64)
            values = np.where(values < 0, 0.0, values) if relu else values
            word |= (
                encode(values, name, mode, finite=finite or name in ("e4m3", "e5m2")).astype(np.uint32)
            ) << np.uint32(width * i)
            valid &= warp.valid[ref.code][ref.index]
        put(warp, target, word, valid)

    return run


def _pack_f16(target: Ref, refs: list[Ref]) -> Step:
    low, high = refs
    pairs = Ref("f16x2", target.code, target.index)

    def run(warp: Warp) -> None:
        made = np.empty(64, np.float16)
        made[0::2], made[1::2] = get(warp, low), get(warp, high)
        put(warp, pairs, made, warp.valid[2][low.index] & warp.valid[2][high.index])

    return run


def _pack_bf16(target: Ref, refs: list[Ref]) -> Step:
    low, high = refs

    def run(warp: Warp) -> None:
        codes = np.empty(64, np.uint16)
        codes[0::2], codes[1::2] = bf16_codes(get(warp, low)), bf16_codes(get(warp, high))
        put(warp, target, codes.view(np.uint32), warp.valid[2][low.index] & warp.valid[2][high.index])

    return run


_PACKS = {"f16": _pack_f16, "bf16": _pack_bf16}


def _unpacked(one: Instruction, decoder: Decoder, to: str, by: str) -> Step:
    """cvt.rn.f16x2.e4m3x2 and the like."""
    name, count = _PACKED[by]
    width = 4 if name == "e2m1" else 8 if name not in ("f16", "bf16") else 16
    into, _ = _PACKED[to]
    mode, finite, relu = _rounding(one), "satfinite" in one.modifiers, "relu" in one.modifiers
    if count != 2 or len(one.operands) != 2:
        raise ValueError(f"{by} to {to}")
    source = decoder.source(one.operands[1], natural(max(16, width * count), "u"))
    bits = {"f16": 16, "bf16": 16}.get(into, 4 if into == "e2m1" else 8)
    target = decoder.target(one.operands[0], natural(max(16, bits * 2), "u"))

    def run(warp: Warp) -> None:
        codes = get(warp, source).astype(np.int64)
        word = np.zeros(32, np.uint32)
        for i in range(2):
            values = decode(codes >> width * i & (1 << width) - 1, name)
            values = np.where(values < 0, 0.0, values) if relu else values
            word |= encode(values, into, mode, finite=finite or bits < 16).astype(np.uint32) << np.uint32(
                bits * i
            )
        put(warp, target, word, warp.valid[source.code][source.index])

    return run


@step("cvt.pack")
def _cvt_pack(one: Instruction, decoder: Decoder) -> Step:
    """cvt.pack.sat.u8.s32.b32 d, a, b, c: saturated a above b above the low part of c."""
    to = one.modifiers[2]
    low, high = _range(to)
    bits = int(to[1:])
    refs = [decoder.source(operand, "s32") for operand in one.operands[1:]]

    def run(a: Array, b: Array, *c: Array) -> Array:
        mask = (1 << bits) - 1
        word = (np.clip(a.astype(np.int64), low, high) & mask) << bits | np.clip(
            b.astype(np.int64), low, high
        ) & mask
        return (word | (c[0].astype(np.int64) << 2 * bits if c else 0)) & 0xFFFFFFFF

    return lift(run, decoder.target(one.operands[0], "u32"), refs)


@step("szext", "bmsk")
def _szext(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    if one.name == "bmsk":
        wrap = "wrap" in one.modifiers

        def run(a: Array, b: Array) -> Array:
            at, length = (
                (x.astype(np.int64) & 31) if wrap else np.minimum(x.astype(np.int64), 32) for x in (a, b)
            )
            return ((1 << length) - 1 << at) & 0xFFFFFFFF

        return lift(
            run,
            decoder.target(one.operands[0], "u32"),
            [decoder.source(operand, "u32") for operand in one.operands[1:]],
        )
    wrap, signed = "wrap" in one.modifiers, dtype == "s32"

    def extend(a: Array, b: Array) -> Array:
        count = (b.astype(np.int64) & 31) if wrap else np.minimum(b.astype(np.int64), 32)
        low = a.astype(np.int64) & (1 << count) - 1
        return (
            low - np.where((count > 0) & (low >> np.maximum(count - 1, 0) & 1 == 1), 1 << count, 0)
            if signed
            else low
        )

    return lift(
        extend,
        decoder.target(one.operands[0], dtype),
        [decoder.source(one.operands[1], "u32"), decoder.source(one.operands[2], "u32")],
    )
