"""A program beside the TTGIR that it was made from: the same arguments, the same memory, the same results?

Takes a program and the values of its scalar arguments; gives the relative error of every array that the
kernel has, for one program of the grid. Pointer arguments get random memory (`memory`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from twill.diagnostics import TwillError
from twill.extract.frontend.descriptors import EXTENT
from twill.ir.loop import Function, Op, Pointer, Value
from twill.ir.program import Program
from twill.ops.table import lookup, role
from twill.ops.values import Array, Operand, Pointers, dtype, element, known
from twill.simulate.execute import run
from twill.simulate.global_memory import Memory, places
from twill.simulate.index_arrays import Fills, fills
from twill.simulate.interpret import Meter, interpret
from twill.simulate.number_kinds import kinds
from twill.simulate.operations import NotSimulatedError
from twill.simulate.protocol import HazardError


@dataclass(frozen=True, slots=True)
class Compared:
    """One array after both runs."""

    argument: str
    error: float
    """Norm of the difference by the norm of the reference, of the elements that either has written; infinite
    where one has a NaN that the other has not."""
    changed: bool
    """The kernel wrote to it."""
    type: str
    """Of its elements."""
    values: int
    """How many numbers were compared: elements that the kernel wrote, with finite values."""
    undefined: tuple[str, ...] = ()
    """Why numbers follow from what Triton does not define, if any do."""

    @property
    def good(self) -> bool:
        return self.error <= TOLERANCE.get(self.type, 0.0)


TOLERANCE: Mapping[str, float] = {
    "f32": 1e-4,
    "f64": 1e-4,
    "f16": 2e-3,
    "bf16": 1.6e-2,
    "f8E4M3FN": 0.13,
    "f8E5M2": 0.25,
}
"""Relative error that the order of sums may make, by what the result is stored as; integers must be equal."""

TINY = 2.0**-110
"""Below this, products and powers of two may be zero: some instructions have no numbers below 2**-126, as
scale factors of a byte are."""

LARGE, SMALL, FLOAT = 512, 2, 0.125
"""What scalar arguments are unless told: integers that a multiple of 16 is promised for and extents of
descriptors, other integers, floats."""


def scalars(function: Function, given: Mapping[str, float]) -> dict[str, float]:
    """A value for every scalar argument. Raises TwillError for names that the function does not have."""
    found = dict[str, float]()
    for value, attributes in zip(function.args, function.arg_attributes, strict=True):
        if isinstance(value.type, Pointer):
            continue
        wide = LARGE if "tt.divisibility" in attributes or EXTENT in attributes else SMALL
        found[_name(value)] = FLOAT if element(value.type).startswith(("f", "bf")) else wide
    unknown = sorted(set(given) - set(found))
    if unknown:
        raise TwillError(
            f"{function.name} has no scalar argument {unknown[0]!r}",
            help=f"it has {', '.join(found) or 'none'}",
        )
    return found | dict(given)


def _name(value: Value) -> str:
    return value.name.lstrip("%")


def arguments(
    function: Function, numbers: Mapping[str, float], seed: int = 0, contents: Fills | None = None
) -> tuple[dict[int, Operand], Memory]:
    """The arguments by value id, and the memory behind the pointers, with the `contents` of integer arrays.
    Raises TwillError for a type that can not be simulated."""
    values, types = dict[int, Operand](), dict[str, str]()
    for value in function.args:
        name = element(value.type.pointee if isinstance(value.type, Pointer) else value.type)
        if not known(name):
            raise TwillError(f"{_name(value)} has type {name}, which can not be simulated", function.location)
        if isinstance(value.type, Pointer):
            types[_name(value)] = name
            values[value.id] = Pointers(_name(value), np.asarray(0, np.int64))
        else:
            values[value.id] = np.asarray(numbers[_name(value)], dtype(name))
    memory = Memory(
        types,
        seed,
        addresses=frozenset(_addresses(function)),
        fills=contents or {},
        kinds=kinds(function),
        exact=_decides(function),
    )
    return values, memory


def _decides(function: Function) -> bool:
    """Integers may follow from sums whose rounding depends on their order, as the place of the least of some
    distances does: with numbers of which all sums are exact there is one right answer."""
    stored = (op.operands[1] for op in function.walk() if role(op) == "pointer_store")
    return of_order(function) > TOLERANCE["f32"] and any(element(one.type)[:1] == "i" for one in stored)


KEPT = 64
"""Searches for contents of arrays whose results are kept, the last ones."""
UNLIMITED = 2**62
"""Operations of such a search without a limit."""
_Searched: TypeAlias = tuple[Function, tuple[tuple[str, float], ...], tuple[tuple[str, int], ...], int]
_USEFUL = dict[_Searched, tuple[Fills, int]]()
"""What was found, and how many operations were executed for that."""


def useful(
    function: Function,
    numbers: Mapping[str, float],
    program: Mapping[str, int],
    seed: int = 0,
    meter: Meter | None = None,
) -> Fills:
    """Contents of integer arrays with which the kernel does its work (`twill.simulate.index_arrays`)."""
    key = (function, tuple(numbers.items()), tuple(program.items()), seed)
    meter = meter or Meter(UNLIMITED)
    if key in _USEFUL:
        found, executed = _USEFUL[key]
        meter.spend(executed)
        return found
    values, memory = arguments(function, numbers, seed)
    before = meter.left
    found = fills(function, values, memory, program, meter)
    while len(_USEFUL) >= KEPT:
        _USEFUL.pop(next(iter(_USEFUL)), None)
    _USEFUL[key] = found, before - meter.left
    return found


def _addresses(function: Function) -> Iterator[str]:
    """The pointer arguments whose memory holds addresses."""
    makers = {value.id: op for op in function.walk() for value in op.results}
    for op in function.walk():
        if role(op) != "int_to_ptr":
            continue
        value: Value | None = op.operands[0]
        while value is not None and value.id in makers:
            maker = makers[value.id]
            value = maker.operands[0] if role(maker) in ("pointer_load", "address", "bitcast") else None
        if value is not None and isinstance(value.type, Pointer):
            yield _name(value)


@np.errstate(all="ignore")
def compare(
    program: Program,
    numbers: Mapping[str, float],
    grid: Mapping[str, int],
    seed: int = 0,
    prefer: tuple[int, ...] = (),
    meter: Meter | None = None,
) -> tuple[Compared, ...]:
    """Run both for one program of the grid. Raises HazardError where the warp program goes wrong by itself:
    also where it reads what is not there, and the direct execution does not; TooLongError where the direct
    execution, and the search for what it is to read, take more operations than the `meter` has."""
    contents = useful(program.function, numbers, grid, seed, meter)
    reference = _reference(program)
    values, expected = arguments(reference, numbers, seed, contents)
    interpret(reference, values, expected, grid, meter=meter)
    values, found = arguments(program.function, numbers, seed, contents)
    try:
        run(program, values, found, grid, prefer)
    except (HazardError, NotSimulatedError):
        raise
    except TwillError as problem:
        raise HazardError(problem.message, problem.location) from problem
    _, untouched = arguments(program.function, numbers, seed, contents)
    for memory in (expected, found, untouched):
        memory.types |= expected.types | found.types
    return tuple(
        replace(_compared(name, expected, found, untouched), undefined=tuple(sorted(expected.undefined)))
        for name in expected.types
    )


@np.errstate(all="ignore")
def collide(program: Program, numbers: Mapping[str, float], grid: Mapping[str, int], tiles: int) -> bool:
    """Whether programs of the grid of a kernel made persistent write to the same place: what is there at the
    end then follows from their order, which a grid does not have. Each is executed as the only one of its
    thread block."""
    contents, reference = useful(program.function, numbers, grid, 0), _reference(program)
    written = dict[str, list[Array]]()
    for tile in range(tiles):
        values, found = arguments(reference, numbers, 0, contents)
        interpret(reference, values, found, {**grid, "pid.x": tile, "grid.x": tiles})
        _, untouched = arguments(reference, numbers, 0, contents)
        untouched.types |= found.types
        for name in found.types:
            touched = found.made[name]
            one, before = (memory.parts(name, touched) for memory in (found, untouched))
            written.setdefault(name, []).append(places(np.flatnonzero(one != before), touched))
    every = (np.concatenate(parts) for parts in written.values())
    return any(len(np.unique(found)) < len(found) for found in every)


ORDERS = 3
"""Of sums, that are tried."""


@np.errstate(all="ignore")
def unstable(
    function: Function,
    numbers: Mapping[str, float],
    programs: Sequence[Mapping[str, int]],
    refused: Callable[[Sequence[Compared]], bool],
    seed: int = 0,
) -> bool:
    """Whether results can not be compared, as their rounding has grown too far: the TTGIR itself would be
    `refused` with its sums in another order. Executes these programs of the grid one after the other."""
    contents = useful(function, numbers, programs[0], seed)

    def executed(order: int | None) -> Memory:
        _, memory = arguments(function, numbers, seed, contents)
        for program in programs:
            interpret(function, arguments(function, numbers, seed)[0], memory, program, order)
        return memory

    expected, (_, untouched) = executed(None), arguments(function, numbers, seed, contents)
    for order in range(ORDERS):
        found = executed(order)
        untouched.types |= expected.types | found.types
        if refused([_compared(name, expected, found, untouched) for name in expected.types]):
            return True
    return False


def wrong(function: Function, compared: Sequence[Compared]) -> Compared | None:
    """The first array that differs by more than the order of sums explains: of sums in the type that is
    stored, or in a narrower one in which a reduction of the kernel adds (a bf16 sum stored as f32)."""
    allowed = of_order(function)
    return next(
        (one for one in compared if not one.good and (one.type not in TOLERANCE or one.error > allowed)), None
    )


def of_order(function: Function) -> float:
    """Relative error that the order of the kernel's reductions and scans may make, by the types that they
    round to at each step (`TOLERANCE`); 0 without any. Maxima and minima are the same in every order."""
    steps = (step for op in function.walk() if role(op) in ("reduce", "scan") for step in op.inner())
    rounded = (element(value.type) for step in steps if not _exact(step) for value in step.results)
    return max((TOLERANCE.get(kind, 0.0) for kind in rounded), default=0.0)


def _exact(step: Op) -> bool:
    """It gives one of its operands."""
    known = lookup(step.name)
    return known is not None and known.word in ("max", "min", "select")


def _reference(program: Program) -> Function:
    """The kernel with whole tiles, where the program's has sub-tiles."""
    whole = program.module.undivided
    if whole is None:
        return program.function
    return next(one for one in whole.functions if one.name == program.function.name)


def _compared(name: str, expected: Memory, found: Memory, untouched: Memory) -> Compared:
    if name not in expected.written | found.written:
        return Compared(name, 0.0, False, expected.types[name], 0)
    touched = expected.made[name] | found.made[name]
    whole = [memory.parts(name, touched) for memory in (expected, found, untouched)]
    if all(np.array_equal(whole[0], array) for array in whole[1:]):
        return Compared(name, 0.0, False, expected.types[name], 0)
    return compared(name, expected.types[name], *whole)


def compared(name: str, type: str, expected: Array, found: Array, before: Array) -> Compared:
    """An array after both runs. Elements that neither has written say nothing, and would make an error look
    small."""
    one, other, old = (array.astype(np.float64) for array in (expected, found, before))
    written = _changed(old, one)
    either = written | _changed(old, other)
    values = int(np.count_nonzero(written & np.isfinite(one)))
    return Compared(name, error(one[either], other[either]), bool(written.any()), type, values)


def _changed(before: Array, after: Array) -> Array:
    """Where elements are others than before; NaN is the same as NaN."""
    return (before != after) & ~(np.isnan(before) & np.isnan(after))


def error(expected: Array, found: Array) -> float:
    """Relative error in the 2-norm; infinite where one is not a number and the other is. Differences of TINY
    numbers do not count."""
    if not np.array_equal(np.isfinite(expected), np.isfinite(found)):
        return float("inf")
    good = np.isfinite(expected)
    off = expected[good] - found[good]
    difference = np.linalg.norm(np.where(np.abs(off) < TINY, 0.0, off))
    size = np.linalg.norm(expected[good])
    return float(difference / size) if size else float(difference)
