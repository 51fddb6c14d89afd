# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What Triton makes of a Gluon file that `twill.targets.gluon` wrote.

Takes the text and the function that it was written from; gives its PTX and what a launch needs. No GPU is
needed. Raises TwillError where Triton is not installed, or does not compile it.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twill.extract.frontend.kernel_files import load_file
from twill.extract.frontend.triton_errors import triton_errors
from twill.extract.frontend.triton_passes import capability
from twill.ir.loop import Function, Pointer, Type
from twill.ops.values import element

TRITON_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5"}
"""Element types in Triton's signatures, where they have another name there."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Gluon kernel, compiled."""

    ttgir: str
    ptx: str
    shared_bytes: int
    scratch_bytes: int
    """Of global memory for each thread block, for the descriptors that the kernel makes."""
    cubin: bytes = b""


def compiled(text: str, function: Function, arch: str) -> Compiled:
    """The kernel, with the alignments of the arguments that the function's attributes promise."""
    with triton_errors(f"{function.name} as a Gluon kernel"), tempfile.TemporaryDirectory() as folder:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import compile as compiled_by_triton
        from triton.experimental.gluon._runtime import GluonASTSource

        path = Path(folder) / "exported.py"
        path.write_text(text)
        module = load_file(str(path))
        sys.modules.pop(module.__name__, None)  # its file goes away; nothing is to look for it later
        kernel: Any = vars(module)["kernel"]
        aligned = {
            (i,): [["tt.divisibility", 16]]
            for i, attributes in enumerate(function.arg_attributes)
            if attributes.get("tt.divisibility") == 16
        }
        source = GluonASTSource(kernel, _signature(kernel.arg_names, function), {}, aligned)
        made: Any = compiled_by_triton(
            source,
            target=GPUTarget("cuda", capability(arch), 32),
            options={"num_warps": vars(module)["NUM_WARPS"]},
        )
        sizes = made.metadata.shared, made.metadata.global_scratch_size
        return Compiled(made.asm["ttgir"], made.asm["ptx"], *sizes, made.asm["cubin"])


def _signature(names: list[str], function: Function) -> dict[str, str]:
    return {name: _type(value.type) for name, value in zip(names, function.args, strict=True)}


def _type(kind: Type) -> str:
    name = element(kind.pointee if isinstance(kind, Pointer) else kind)
    return f"{'*' if isinstance(kind, Pointer) else ''}{TRITON_TYPES.get(name, name)}"
