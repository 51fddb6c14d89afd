"""Arrays for kernels: values in NumPy, as they lie in a GPU's memory."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from twill.diagnostics import TwillError
from twill.emulate.numeric.formats import bf16_codes, bf16_values, decode, encode
from twill.emulate.numeric.rounding import Array

_EIGHT_BITS: Mapping[str, str] = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "e4m3": "e4m3", "e5m2": "e5m2"}
_INTEGERS = (("i", "int"), ("s", "int"), ("u", "uint"))
_NATIVE: Mapping[str, str] = {
    f"{sign}{bits}": f"{kind}{bits}" for sign, kind in _INTEGERS for bits in (8, 16, 32, 64)
} | {f"f{bits}": f"float{bits}" for bits in (16, 32, 64)}


def encoded(values: Array, kind: str) -> Array:
    """A copy of an array as it lies in a GPU's memory: bf16 and 8-bit floats as codes."""
    if kind in _EIGHT_BITS:
        return encode(values.astype(np.float64), _EIGHT_BITS[kind], finite=True).astype(np.uint8)
    return bf16_codes(values) if kind == "bf16" else np.array(values)


def decoded(raw: Array, kind: str) -> Array:
    """The values of an array as it lies in a GPU's memory."""
    if kind in _EIGHT_BITS:
        return decode(raw, _EIGHT_BITS[kind]).astype(np.float32)
    return bf16_values(raw) if kind == "bf16" else raw


def parameter(text: str, position: int, seed: int, integers: bool) -> "Array | int | float":
    """A parameter as the command line gives it: `f16[4096]` is a random array, other text a number. Raises
    TwillError."""
    found = re.fullmatch(r"(\w+)\[(\d+)\]", text)
    if not found:
        try:
            return int(text, 0) if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|\d+)", text) else float(text)
        except ValueError:
            raise TwillError(
                f"{text!r} is no parameter", help="give TYPE[SIZE], as f16[4096], or a number"
            ) from None
    kind, size = found[1], int(found[2])
    if kind not in _NATIVE and kind not in _EIGHT_BITS and kind != "bf16":
        raise TwillError(
            f"{kind!r} is no element type",
            help=f"one of {', '.join(sorted([*_NATIVE, *_EIGHT_BITS, 'bf16']))}",
        )
    random = np.random.default_rng((seed, position))
    whole = integers or kind[0] in "isu"
    values: Any = random.integers(0, 3, size) if whole else random.standard_normal(size)
    return encoded(values.astype(_NATIVE.get(kind, "float32")), kind)
