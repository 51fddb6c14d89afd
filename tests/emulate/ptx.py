"""Small kernels in PTX for the tests: a header, declarations, a body."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from twill.emulate import Module, load

Array: TypeAlias = np.ndarray[Any, Any]

HEADER = """.version 9.0
.target sm_90a
.address_size 64
"""

REGISTERS = """    .reg .pred %p<16>;
    .reg .b16 %h<32>;
    .reg .b32 %r<200>;
    .reg .f32 %f<300>;
    .reg .b64 %d<64>;
    .reg .f64 %e<16>;
"""


def kernel(
    body: str,
    parameters: Sequence[str] = (".u64 out",),
    *,
    shared: int = 0,
    threads: int = 32,
    outside: str = "",
) -> Module:
    """A module with one kernel, `k`; `tile` names its shared memory."""
    listed = ",\n".join(f"    .param {one}" for one in parameters)
    tile = f"    .shared .align 1024 .b8 tile[{shared}];\n" if shared else ""
    text = (
        f"{HEADER}{outside}\n.visible .entry k(\n{listed}\n)\n.reqntid {threads}, 1,"
        f" 1\n{{\n{REGISTERS}{tile}{body}\n    ret;\n}}\n"
    )
    return load(text, "test.ptx")


PREFIXES = {16: "%h", 32: "%r", 64: "%d"}


def evaluate(instruction: str, result: int, *inputs: Array) -> Array:
    """What an instruction gives, in bits of the size `result`, for every element of arrays of the same
    length.

    In the text, {d} is the result's register and {a}, {b}, {c} those of the inputs, which have the inputs'
    sizes.
    """
    names, lines = dict[str, str](), list[str]()
    for i, (letter, values) in enumerate(zip("abc", inputs, strict=False)):
        bits = values.dtype.itemsize * 8
        names[letter] = f"{PREFIXES[bits]}{10 + i}"
        lines += [
            f"ld.param.u64 %d1, [{letter}];",
            f"mad.wide.u32 %d1, %r1, {bits // 8}, %d1;",
            f"ld.global.b{bits} {names[letter]}, [%d1];",
        ]
    names["d"] = f"{PREFIXES[result]}20"
    lines += [
        instruction.format(**names),
        "ld.param.u64 %d1, [out];",
        f"mad.wide.u32 %d1, %r1, {result // 8}, %d1;",
    ]
    lines.append(f"st.global.b{result} [%d1], {names['d']};")
    body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 256, %r1;\n" + "\n".join(lines)
    size = -(-len(inputs[0]) // 256) * 256
    given = [np.concatenate([values, np.zeros(size - len(values), values.dtype)]) for values in inputs]
    out = np.zeros(size, f"uint{result}")
    made = kernel(body, [".u64 out", *(f".u64 {letter}" for letter in "abc"[: len(inputs)])], threads=256)
    made.kernel().launch((size // 256,), [out, *given])
    return out[: len(inputs[0])]
