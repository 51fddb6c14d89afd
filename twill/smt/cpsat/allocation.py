# pyright: reportUnknownMemberType=false
"""Rules SHARED and TENSOR: a fixed-address allocation over modulo time.

A value whose live range fits one period is a rectangle residues x addresses, which others may share when it
is dead; a longer one, a resident one and a multi-buffered channel take their slots at every residue. Any two
must be apart in address or, if neither is always live, in modular time. The four ways to be apart are
explicit literals for every pair: that refutes five times faster than a two-dimensional packing constraint;
the sum over each residue is stated beside it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal as Choice

from ortools.sat.python import cp_model

from twill.ir.problem import Use, Value
from twill.smt.cpsat.variables import Literal, Variables, negate

Kind = Choice["shared", "tensor"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """The slots of one value, or of its hand-off buffer, in units of `grain` bytes or columns."""

    value: str
    memory: Kind
    staging: bool
    grain: int
    address: cp_model.IntVar
    height: cp_model.IntVar
    size: int
    """Of one slot; `height` is that of all its slots."""
    present: Literal
    always: Literal
    """It is live at every residue."""
    residue: cp_model.IntVar | None
    """Where its live range begins; None for one that is always live."""
    length: cp_model.IntVar | None


@dataclass(frozen=True, slots=True)
class _Need:
    value: Value
    size: int
    staging: bool
    grain: int
    top: int


def state(v: Variables) -> list[Buffer]:
    """Allocate both memories; addresses are read off the buffers."""
    limits = v.problem.limits
    return [*_allocate(v, "shared", limits.shared), *_allocate(v, "tensor", limits.tensor)]


def _allocate(v: Variables, memory: Kind, capacity: int) -> list[Buffer]:
    sizes = list(_sizes(v, memory))
    grain = math.gcd(*(size for _, size, _ in sizes)) or 1
    needs = [_Need(value, size // grain, staging, grain, capacity // grain) for value, size, staging in sizes]
    buffers = [_buffer(v, memory, need) for need in needs]
    for one, other in combinations(buffers, 2):
        v.pause()
        _apart(v, one, other)
    _sum(v, buffers, capacity // grain)
    return buffers


def _sizes(v: Variables, memory: Kind) -> Iterator[tuple[Value, int, bool]]:
    """(value, size of one slot, staging) of everything that may need storage."""
    for value in v.problem.values:
        size = value.shared if memory == "shared" else value.tensor
        if size and (value.uses or value.resident or value.slots):
            yield value, size, False
        if memory == "shared" and value.staging and _crossing(v, value):
            yield value, value.staging, True


def _crossing(v: Variables, value: Value) -> list[tuple[Use, int]]:
    """Uses that may be in another group than the producer."""
    src = v.problem.index(value.src)
    users = [(use, v.problem.index(use.op)) for use in value.uses]
    return [(use, op) for use, op in users if v.same(src, op) is not True]


# --- one buffer -------------------------------------------------------------------------------------------


def _buffer(v: Variables, memory: Kind, need: _Need) -> Buffer:
    value = need.value
    address = v.model.new_int_var(0, need.top, f"address[{value.id}]")
    height = v.model.new_int_var(0, max(need.top, need.size), f"height[{value.id}]")
    if value.resident and not need.staging:
        v.model.add(height == need.size * (1 + value.slots))
        v.model.add(address + height <= need.top)
        return Buffer(value.id, memory, False, need.grain, address, height, need.size, True, True, None, None)
    length, present = _range(v, need)
    slots = 0 if need.staging else value.slots
    periods = v.model.new_int_var(0 if slots else 1, v.most_instances, f"periods[{value.id}]")
    v.model.add(length <= periods * v.interval)
    v.model.add(height == need.size * (periods + slots))
    v.when(v.model.add(address + height <= need.top), True if slots else present)
    if slots:
        return Buffer(value.id, memory, False, need.grain, address, height, need.size, True, True, None, None)
    many = v.model.new_bool_var("")
    v.model.add(periods >= 2).only_enforce_if(many)
    v.model.add(periods == 1).only_enforce_if(many.negated())
    residue = v.residue[v.problem.index(value.src)]
    return Buffer(
        value.id, memory, need.staging, need.grain, address, height, need.size, present, many, residue, length
    )


def _range(v: Variables, need: _Need) -> tuple[cp_model.IntVar, Literal]:
    """The live range's length, and whether it is not empty."""
    src = v.problem.index(need.value.src)
    length = v.model.new_int_var(0, v.latest_end, f"range[{need.value.id}]")
    users = (
        _crossing(v, need.value)
        if need.staging
        else [(use, v.problem.index(use.op)) for use in need.value.uses]
    )
    for use, op in users:
        reach = v.model.add(length >= v.start[op] + use.distance * v.interval + use.hold - v.start[src])
        if need.staging:
            v.when(reach, negate(v.same(src, op)))
    present = v.model.new_bool_var("")
    v.model.add(length >= 1).only_enforce_if(present)
    v.model.add(length == 0).only_enforce_if(present.negated())
    return length, present


# --- all buffers together ---------------------------------------------------------------------------------


def _apart(v: Variables, a: Buffer, b: Buffer) -> None:
    """One lies above the other, or each is dead while the other lives, or one is absent."""
    above, below = v.model.new_bool_var(""), v.model.new_bool_var("")
    v.model.add(a.address >= b.address + b.height).only_enforce_if(above)
    v.model.add(b.address >= a.address + a.height).only_enforce_if(below)
    absent = [negate(buffer.present) for buffer in (a, b) if buffer.present is not True]
    v.model.add_bool_or([above, below, *_alternating(v, a, b), *absent])


def _alternating(v: Variables, a: Buffer, b: Buffer) -> list[Literal]:
    """Literals for: b's range begins when a's is over and ends before a's begins again, within the period or
    past its end."""
    if a.residue is None or b.residue is None or a.length is None or b.length is None:
        return []
    result: list[Literal] = []
    for wraps in (0, 1):
        turn = v.model.new_bool_var("")
        gap = b.residue - a.residue + wraps * v.interval
        v.model.add(gap >= a.length).only_enforce_if(turn)
        v.model.add(gap + b.length <= v.interval).only_enforce_if(turn)
        v.model.add_bool_or(negate(turn), negate(a.always))
        v.model.add_bool_or(negate(turn), negate(b.always))
        result.append(turn)
    return result


def _sum(v: Variables, buffers: list[Buffer], top: int) -> None:
    """Implied by the allocation, and strong: at no residue do the buffers that live there exceed the
    memory."""
    always: list[cp_model.LinearExprT] = []
    parts: list[tuple[cp_model.IntervalVar, int]] = []
    for buffer in buffers:
        if buffer.residue is None or buffer.length is None:
            always.append(buffer.height)
            continue
        alone = v.both(buffer.present, negate(buffer.always), "")
        width = v.model.new_int_var(0, v.interval, "")
        v.when(v.model.add(width == buffer.length), alone)
        end = v.model.new_int_var(0, 2 * v.interval, "")
        for turn in (0, 1):
            begin, past = buffer.residue + turn * v.interval, end + turn * v.interval
            parts.append((v.model.new_optional_interval_var(begin, width, past, alone, ""), buffer.size))
        kept = v.model.new_int_var(0, max(top, buffer.size), "")
        v.when(v.model.add(kept == buffer.height), v.both(buffer.present, buffer.always, ""))
        always.append(kept)
    left = v.model.new_int_var(0, top, "")
    v.model.add(cp_model.LinearExpr.sum(always) + left <= top)
    if parts:
        v.model.add_cumulative([part for part, _ in parts], [size for _, size in parts], left)


def lasting(v: Variables, buffers: list[Buffer], value: str, periods: int) -> None:
    """Not a rule but a restriction: a value with slots lasts so many periods. What all live ranges together
    take of a period is stated with it, which the rules imply."""
    for buffer in buffers:
        if buffer.value == value and buffer.residue is None:
            slots = next(one.slots for one in v.problem.values if one.id == value)
            low = 0 if periods == 1 else periods
            v.model.add_linear_constraint(
                buffer.height, buffer.size * (low + slots), buffer.size * (periods + slots)
            )
    for memory, capacity in (("shared", v.problem.limits.shared), ("tensor", v.problem.limits.tensor)):
        own = [buffer for buffer in buffers if buffer.memory == memory]
        areas = [
            v.interval * buffer.height if buffer.length is None else buffer.size * buffer.length
            for buffer in own
        ]
        if own:
            v.model.add(cp_model.LinearExpr.sum(areas) <= capacity // own[0].grain * v.interval)
