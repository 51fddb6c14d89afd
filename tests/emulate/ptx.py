"""Small kernels in PTX for the tests: a header, declarations, a body."""

from collections.abc import Sequence

from twill.emulate import Module, load

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


def kernel(body: str, parameters: Sequence[str] = (".u64 out",), *, shared: int = 0, threads: int = 32, outside: str = "") -> Module:
    """A module with one kernel, `k`; `tile` names its shared memory."""
    listed = ",\n".join(f"    .param {one}" for one in parameters)
    tile = f"    .shared .align 1024 .b8 tile[{shared}];\n" if shared else ""
    text = f"{HEADER}{outside}\n.visible .entry k(\n{listed}\n)\n.reqntid {threads}, 1, 1\n{{\n{REGISTERS}{tile}{body}\n    ret;\n}}\n"
    return load(text, "test.ptx")
