"""What a caller must know of a generated kernel: `twill.kernel/1`, the file kernel.json beside kernel.cu.

`manifest` makes it from a program, `write` gives text, `read` gives it again or one `TwillError` at the line
and column of the mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.diagnostics import TwillError
from twill.extract.frontend.descriptors import DESCRIPTOR
from twill.extract.strides import Stride, Term, layouts
from twill.files.graph import schema
from twill.files.record import Ranges, decode, encode
from twill.files.text import parse, render
from twill.ir.checked import Checked
from twill.ir.loop import GRID, Attribute, Pointer, Scalar, Value
from twill.ir.names import identifier
from twill.ir.program import Program
from twill.warp.tasks import Scheduled

SCHEMA = "twill.kernel/1"

RANGES_OF_MANIFESTS: Ranges = {(Term, "factor"): (-(2.0**63), 2.0**63)}


NOT_SAID = Checked((), 0, ())
"""In files of before there were checks."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the kernel, in order."""

    name: str
    type: str
    """As in TTGIR: `f32`, or `*f16` for a pointer to such."""
    divisible: int = 1
    """The caller promises a multiple of this: of the value, or of the address."""
    strides: tuple[Stride, ...] | None = None
    """Of a pointer: with which it is addressed; None where that is not known."""
    descriptor: tuple[int, ...] = ()
    """The block of a descriptor, where the caller passes one made by the host: this is its address, and the
    arguments behind it, two for each dimension, are its shape and strides."""


@dataclass(frozen=True, slots=True)
class Constant:
    """What was settled when the kernel was compiled, for grids that are functions of it."""

    name: str
    value: str
    """A Python literal."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles from one iteration of a loop to the next, in its steady state."""

    path: str
    scheduled: int
    """The schedule's interval."""
    simulated: float
    """What the timed simulation of the warp programs says."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A generated kernel, to its callers."""

    name: str
    """NAME_launch is the C function that launches it."""
    source: str
    """Where its TTGIR was read."""
    threads: int
    """Of a thread block."""
    registers: int
    """Per thread of the group that is granted most."""
    arguments: tuple[Argument, ...]
    """Without the extents of the grid, which the launcher knows."""
    loops: tuple[Predicted, ...]
    persistent: bool = False
    """The grid is walked over by as many thread blocks as fit; it may have any extents."""
    constants: tuple[Constant, ...] = ()
    checked: Checked | None = NOT_SAID
    """What was run to check it before it was written; None where nothing was (`--no-check`)."""
    arch: str = "sm90"
    """The architecture that it is built for."""


def manifest(
    program: Program,
    loops: Sequence[Scheduled],
    simulated: Mapping[str, float],
    checked: Checked | None = None,
) -> Manifest:
    """`simulated` by the path of the loop. Raises TwillError for an argument that no caller can pass."""
    function = program.function
    pairs = zip(function.args, function.arg_attributes, strict=True)
    strides = {one.argument: one.strides for one in layouts(function)}
    arguments = tuple(
        _argument(value, attributes, program, strides)
        for value, attributes in pairs
        if GRID not in attributes
    )
    persistent = any(GRID in attributes for attributes in function.arg_attributes)
    constants = tuple(Constant(name, repr(value)) for name, value in sorted(program.module.constants.items()))
    predicted = tuple(
        Predicted(
            one.loop.path,
            round(one.solution.interval * one.problem.resolution.cycles_per_unit),
            simulated[one.loop.path],
        )
        for one in loops
    )
    registers = max(group.registers for group in program.groups)
    arch = loops[0].machine.arch
    shape = (program.launch.threads, registers, arguments, predicted, persistent, constants, checked, arch)
    return Manifest(identifier(function.name), program.module.file, *shape)


def _argument(
    value: Value,
    attributes: Mapping[str, Attribute],
    program: Program,
    strides: Mapping[str, tuple[Stride, ...] | None],
) -> Argument:
    promised = attributes.get("tt.divisibility", 1)
    divisible = promised if isinstance(promised, int) else 1
    block = attributes.get(DESCRIPTOR)
    match value.type:
        case Pointer(Scalar(name)) if isinstance(block, tuple):
            sizes = tuple(size for size in block if isinstance(size, int))
            return Argument(value.name.lstrip("%"), f"*{name}", divisible, descriptor=sizes)
        case Pointer(Scalar(name)):
            return Argument(value.name.lstrip("%"), f"*{name}", divisible, strides[value.name.lstrip("%")])
        case Scalar(name):
            return Argument(value.name.lstrip("%"), name, divisible)
        case other:
            raise TwillError(
                f"the argument {value.name} of type {other} can not be passed by a caller",
                program.function.location,
            )


def write(manifest: Manifest) -> str:
    return render({"schema": SCHEMA, **encode(manifest)})


def read(text: str, file: str) -> Manifest:
    root = parse(text, file)
    schema(root, SCHEMA)
    return decode(root, Manifest, RANGES_OF_MANIFESTS, ["schema"])
