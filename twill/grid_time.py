"""How long a whole grid takes, from the schedules of a kernel's loops.

Takes the loops of a kernel, the values of its scalar arguments and the size of its grid; gives machine
cycles. One thread block runs on each SM at a time, as in the machine model. A thread block takes, for each
loop of N iterations, the interval times N - 1 plus the length of one iteration (prologue, steady state,
epilogue); the time until its first tile arrives; and the time in which the tiles that it stores behind its
loops pass shared memory twice: written by threads, read by TMA. The grid takes as many thread blocks one
after the other as the busiest SM has, ceil(blocks / SMs), so that a tail costs as much as a full wave.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from twill.diagnostics import TwillError
from twill.inputs import Case
from twill.ir.loop import Function, Tensor
from twill.ops.table import role
from twill.ops.values import element
from twill.simulate.compare import arguments, scalars
from twill.simulate.trips import trips

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
    ast.Mod: int.__mod__,
}


def _divided_up(a: int, b: int) -> int:
    return -(-a // b)


_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {"cdiv": _divided_up, "min": min, "max": max}


@dataclass(frozen=True, slots=True)
class Launch:
    """What a kernel is launched with."""

    numbers: Mapping[str, float]
    """Scalar arguments; the others are as in `simulate.compare.scalars`."""
    grid: str
    """Its thread blocks, as an expression of scalar arguments and constants: `cdiv(M, BLOCK_M) * heads`."""

    @property
    def text(self) -> str:
        """What the launch is, in one line."""
        return " ".join([*(f"{name}={value}" for name, value in sorted(self.numbers.items())), self.grid])


@dataclass(frozen=True, slots=True)
class Paced:
    """One loop with a pace: its schedule's, or its lower bound."""

    case: Case
    interval: float
    """Cycles."""
    length: float
    """Cycles of one iteration from its first start to its last end."""


def grid_cycles(loops: Sequence[Paced], launch: Launch, constants: Mapping[str, int]) -> float:
    """Cycles from the start of the first thread block to the end of the last. Raises TwillError for a grid
    that is no number, a machine whose number of SMs is not known, and trip counts that do not follow from
    the arguments."""
    machine, loop = loops[0].case.machine, loops[0].case.loop
    if machine is None or loop is None or machine.multiprocessors is None:
        raise TwillError(
            "the number of multiprocessors is not known", help="add multiprocessors = N to the machine file"
        )
    function, names = loop.function, {**constants, **{k: int(v) for k, v in launch.numbers.items()}}
    blocks = evaluated(launch.grid, names)
    if blocks < 1:
        raise TwillError(f"the grid {launch.grid} has {blocks} thread blocks")
    values, _ = arguments(function, scalars(function, launch.numbers))
    given = {value: number for value, number in values.items() if _is_number(number)}
    ends = [
        sum(one.length + one.interval * max(0, _trips(one, given, block, blocks) - 1) for one in loops)
        for block in (0, blocks - 1)
    ]
    fixed = machine.loads.arrival + _stored(function, loops) / (
        machine.shared.bytes_per_cycle if machine.shared else float("inf")
    )
    return -(-blocks // machine.multiprocessors) * (sum(ends) / 2 + fixed)


def _is_number(value: object) -> bool:
    """Whether an argument is a scalar rather than a pointer."""
    return hasattr(value, "dtype")


def _trips(one: Paced, given: Mapping[int, object], block: int, blocks: int) -> int:
    """Iterations of a loop in one thread block; of a causal kernel the first and the last one differ."""
    assert one.case.loop is not None
    place = {"pid.x": block, "pid.y": 0, "pid.z": 0, "grid.x": blocks, "grid.y": 1, "grid.z": 1}
    return trips(one.case.loop.function, one.case.loop.op, dict(given), place)


def _stored(function: Function, loops: Sequence[Paced]) -> int:
    """Bytes through shared memory for the tiles that are stored outside of the loops, there and back."""
    inside = {op.index for one in loops if one.case.loop for op in one.case.loop.op.inner()}
    tiles = [
        value.type
        for op in function.walk()
        if role(op) in ("tma_store", "tma_reduce", "pointer_store") and op.index not in inside
        for value in op.operands
        if isinstance(value.type, Tensor) and element(value.type) != "ptr"
    ]
    return 2 * sum(prod(tile.shape) * _bits(element(tile)) // 8 for tile in tiles)


def _bits(name: str) -> int:
    digits = "".join(character for character in name.split("E")[0] if character.isdecimal())
    return int(digits or 32)


def evaluated(expression: str, names: Mapping[str, int]) -> int:
    """The value of an expression of whole numbers, names, `+ - * // %`, cdiv, min and max. Raises
    TwillError."""
    try:
        return _number(ast.parse(expression, mode="eval").body, names)
    except (SyntaxError, KeyError, ZeroDivisionError, TypeError, ValueError) as problem:
        raise TwillError(
            f"the grid {expression!r} can not be evaluated: {problem}",
            help="use scalar arguments, constants, + - * // %, cdiv(a, b), min and max",
        ) from problem


def _number(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_number(left, names), _number(right, names))
        case ast.Call(func=ast.Name(id=name), args=args):
            left, right = (_number(one, names) for one in args)
            return _FUNCTIONS[name](left, right)
        case _:
            raise ValueError(f"{ast.unparse(node)} is not supported")
