"""What a caller must know of a generated kernel: `twill.kernel/1`, the file kernel.json beside kernel.cu.

`launch.describe` makes it from a program, `write` gives text, `read` gives it again or one `TwillError` at
the line and column of the mistake. Imported by programs that launch kernels: nothing of the compiler is.
"""

from dataclasses import dataclass

from twill.files.record import Ranges, decode, encode
from twill.files.text import parse, render, schema
from twill.ir.apart import Apart
from twill.ir.checked import Checked
from twill.ir.strides import Stride, Term

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
class LaunchForm:
    """A form that the launcher takes for some numbers of thread blocks."""

    blocks: int
    """That a multiprocessor holds at the same time, at most."""
    threads: int
    """Of a thread block."""
    registers: int
    """Per thread of the group that is granted most."""
    alone: float
    """Predicted cycles for an iteration of a thread block that no other one is beside."""
    busy: float
    """Of these, those for which it needs the busiest unit of a multiprocessor."""


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
    apart: tuple[Apart, ...] = ()
    """Arguments that must not point to the same memory."""
    forms: tuple[LaunchForm, ...] = ()
    """Between which the launcher chooses by the number of thread blocks, the first with `threads` and
    `registers`; empty where there is no choice."""


def write(manifest: Manifest) -> str:
    return render({"schema": SCHEMA, **encode(manifest)})


def read(text: str, file: str) -> Manifest:
    root = parse(text, file)
    schema(root, SCHEMA)
    return decode(root, Manifest, RANGES_OF_MANIFESTS, ["schema"])
