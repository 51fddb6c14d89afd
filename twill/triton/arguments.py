"""From what Triton passes to its launcher to what Twill's launcher takes.

Triton passes one value for each parameter of the kernel, in order. The signature gives each a type:
`constexpr` (compiled in), `*fp16` (a pointer), `i32` (a scalar), `tensordesc<fp16[128, 64]>` (a descriptor
made by the host), or a tuple of types. `plan` compares the types with those that the kernel takes and raises
TwillError where they differ.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import match
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from twill.diagnostics import TwillError
from twill.launch.c_types import C_TYPES

if TYPE_CHECKING:
    from twill.launch.arrays import Array

Passed: TypeAlias = Any
"""As in `twill.launch.arrays`, which is imported where arrays are compared by their elements."""
Arguments: TypeAlias = Sequence[tuple[str, str]]
"""Names and types of the C arguments of a kernel (`Callee.arguments`)."""
Apart: TypeAlias = Sequence[tuple[str, str, bool]]
"""Arguments that must not share memory (`Callee.apart`)."""

TYPES: Mapping[str, str] = {
    "fp16": "f16",
    "bf16": "bf16",
    "fp32": "f32",
    "fp64": "f64",
    "fp8e4nv": "f8E4M3FN",
    "fp8e5": "f8E5M2",
    **{f"{sign}{bits}": f"i{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64)},
}
"""Triton's names of types in TTGIR."""

CONSTANT = "constexpr"

Getter = Callable[[Sequence[Passed]], tuple[Any, ...]]
"""The C arguments that one parameter becomes, from all values of a launch."""


class UnfitError(Exception):
    """One launch has an argument that the kernel cannot take, though others of its specialization can."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A parameter, or an element of a tuple, that is passed at run time."""

    path: tuple[int, ...]
    type: str
    """In TTGIR; `*` before that of a pointer's elements. Of a descriptor: `tensordesc<...>` as Triton writes
    it."""

    @property
    def descriptor(self) -> bool:
        return self.type.startswith("tensordesc")

    def types(self) -> tuple[str, ...]:
        """Of its C arguments, as the manifest names them: of a descriptor its address, its shape and its
        strides."""
        found = match(r"tensordesc<(\w+)\[([^\]]*)\]", self.type)
        if found is None:
            return (self.type,)
        rank = found[2].count(",") + 1
        return (f"*{TYPES.get(found[1], found[1])}", *["i32"] * rank, *["i64"] * rank)


def leaves(signature: Sequence[object], path: tuple[int, ...] = ()) -> Iterator[Leaf]:
    """What is passed at run time, in the order of the arguments of the TTIR function."""
    for i, kind in enumerate(signature):
        if isinstance(kind, tuple | list):
            yield from leaves(cast(Sequence[object], kind), (*path, i))
        elif kind != CONSTANT:
            yield Leaf((*path, i), ttgir_type(str(kind)))


def ttgir_type(kind: str) -> str:
    """A type of Triton's signatures in TTGIR; one that is unknown as it is."""
    if kind.startswith("tensordesc"):
        return kind
    if kind.startswith("*"):
        return f"*{TYPES.get(kind[1:].removeprefix('k'), kind[1:])}"
    return TYPES.get(kind, kind)


def plan(signature: Sequence[object], arguments: Arguments) -> Getter:
    """What makes the C `arguments` of a kernel from the values of a launch. Raises TwillError where they do
    not fit together."""
    found = tuple(leaves(signature))
    passed = [kind for leaf in found for kind in leaf.types()]
    wanted = [kind for _, kind in arguments]
    if passed != wanted:
        raise TwillError(
            f"its launch passes ({', '.join(passed)}), and the kernel takes ({', '.join(wanted)})"
        )
    if all(not leaf.descriptor and len(leaf.path) == 1 for leaf in found):
        return _flat([(leaf.path[0], leaf.type.startswith("*")) for leaf in found])
    getters = [_getter(leaf) for leaf in found]
    return lambda values: tuple(one for getter in getters for one in getter(values))


def _flat(positions: Sequence[tuple[int, bool]]) -> Getter:
    """The usual case, on the path of every launch: pointers and scalars alone. One expression that is
    compiled once takes a third of the time of a loop over the positions; addresses that are no arrays take
    the loop."""
    parts = [f"values[{i}].data_ptr()" if pointer else f"values[{i}]" for i, pointer in positions]
    quick: Getter = eval(f"lambda values: ({' '.join(f'{part},' for part in parts)})")

    def getter(values: Sequence[Passed]) -> tuple[Any, ...]:
        try:
            return quick(values)
        except AttributeError:
            return tuple(address(values[i]) if pointer else values[i] for i, pointer in positions)

    return getter


def _getter(leaf: Leaf) -> Getter:
    value = _at(leaf)
    if leaf.descriptor:
        return lambda values: descriptor(value(values))
    return (
        (lambda values: (address(value(values)),))
        if leaf.type.startswith("*")
        else lambda values: (value(values),)
    )


def _at(leaf: Leaf) -> Callable[[Sequence[Passed]], Passed]:
    """The value of a parameter."""

    def value(values: Sequence[Passed]) -> Passed:
        for step in leaf.path:
            values = values[step]
        return values

    return value


def arrays_apart(
    signature: Sequence[object], arguments: Arguments, pairs: Apart
) -> Callable[[Sequence[Passed], tuple[Any, ...]], bool]:
    """Whether the arrays of a launch are apart where the kernel takes them to be, from its values and its C
    arguments. Addresses that are no arrays have no extent that is known: they are compared as one byte."""
    named = {name for stored, other, _ in pairs for name in (stored, other)}
    places, at = list[tuple[str, int, Leaf]](), 0
    for leaf in leaves(signature):
        name = arguments[at][0]
        places += [(name, at, leaf)] if name in named else []
        at += len(leaf.types())
    quick = _quick(places, pairs)

    def apart(values: Sequence[Passed], passed: tuple[Any, ...]) -> bool:
        try:
            if quick(values, passed):
                return True
        except (AttributeError, TypeError):  # an address, or None
            pass
        return _by_elements(
            pairs, {name: (passed[at], _at(leaf)(values)) for name, at, leaf in places if passed[at]}
        )

    return apart


def _quick(
    places: Sequence[tuple[str, int, Leaf]], pairs: Apart
) -> Callable[[Sequence[Passed], tuple[Any, ...]], bool]:
    """Whether arrays without gaps lie one behind the other; `places`: names, places of their addresses among
    the C arguments, parameters. One expression that is compiled once: a launch with new arrays waits for
    it."""
    number = {name: i for i, (name, _, _) in enumerate(places)}
    bounds, dense = list[str](), list[str]()
    for i, (_, at, leaf) in enumerate(places):
        value = "v" + "".join(f"[{step}]" for step in leaf.path) + (".base" if leaf.descriptor else "")
        bounds.append(f"(b{i} := p[{at}], e{i} := b{i} + {value}.nbytes)")
        dense.append(f"{value}.is_contiguous()")
    behind = [
        f"(e{one} <= b{other} or e{other} <= b{one})"
        for one, other in ((number[stored], number[other]) for stored, other, _ in pairs)
    ]
    return eval(f"lambda v, p: {' and '.join([*bounds, *dense, *behind, 'True'])}")


def _by_elements(pairs: Apart, arrays: Mapping[str, tuple[int, Passed]]) -> bool:
    """The same for arrays with gaps, by their addresses and values."""
    from twill.ir.apart import Apart  # seldom needed, and imports take time at the first launch of a program
    from twill.launch.overlap import overlapping

    seen = {name: _array(*one) for name, one in arrays.items()}
    return next(overlapping([Apart(*pair) for pair in pairs], seen), None) is None


def _array(address: int, value: Passed) -> "Array":
    from twill.launch.arrays import Array

    value = getattr(value, "base", value)
    if not hasattr(value, "is_contiguous"):
        return Array(address, "i8", (), (), None)
    return Array(address, f"i{8 * value.element_size()}", tuple(value.shape), tuple(value.stride()), None)


def address(value: Passed) -> int | None:
    """Where an array lies; Triton takes plain addresses and None too."""
    return value.data_ptr() if hasattr(value, "data_ptr") else value


def descriptor(value: Passed) -> tuple[Any, ...]:
    """A `TensorDescriptor` as a base address, the shape and the strides in elements."""
    if getattr(value, "padding", "zero") != "zero" or getattr(value, "round_f32_to_tf32", False):
        raise UnfitError("its descriptor pads with NaN or rounds to TF32")
    return (value.base.data_ptr(), *value.shape, *value.strides)


def c_types(arguments: Arguments) -> list[Any]:
    """ctypes of a launcher: its arguments, three extents of the grid and a stream. Raises TwillError for a
    scalar that C lacks."""
    unknown = [(name, kind) for name, kind in arguments if not _pointer(kind) and kind not in C_TYPES]
    if unknown:
        name, kind = unknown[0]
        raise TwillError(f"`{name}` is a number of type {kind}, which Twill cannot pass")
    own = [ctypes.c_void_p if _pointer(kind) else C_TYPES[kind] for _, kind in arguments]
    return [*own, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]


def _pointer(kind: str) -> bool:
    return kind.startswith("*")
