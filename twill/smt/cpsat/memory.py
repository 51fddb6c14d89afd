# pyright: basic
"""Rules SHARED and TENSOR: a fixed-address allocation over modulo time.

A value whose live range fits one period is a rectangle residues x addresses, which others may share when it is dead; a longer one, a
resident one and a ring take their places at every residue. Rectangles must not overlap.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice

from ortools.sat.python import cp_model

from twill.ir.problem import Use, Value
from twill.ir.schedule import Place
from twill.smt.cpsat.variables import Literal, Variables, negate

Kind = Choice["shared", "tensor"]


@dataclass(frozen=True, slots=True)
class Room:
    """The place of one value, or of its hand-over staging: variables in units of `grain`."""

    value: str
    memory: Kind
    staging: bool
    present: Literal
    address: cp_model.IntVar
    copies: cp_model.IntVar
    size: int
    grain: int


def state(v: Variables) -> list[Room]:
    """Allocate both memories; the rooms are read off the solution."""
    capacity = {"shared": v.problem.limits.shared, "tensor": v.problem.limits.tensor}
    rooms: list[Room] = []
    for memory in ("shared", "tensor"):
        rooms += _allocate(v, memory, capacity[memory])
    return rooms


@dataclass(frozen=True, slots=True)
class _Need:
    value: Value
    size: int
    staging: bool


def _needs(v: Variables, memory: Kind) -> Iterator[_Need]:
    for value in v.problem.values:
        size = value.shared if memory == "shared" else value.tensor
        if size and (value.uses or value.resident or value.slots):
            yield _Need(value, size, False)
        if memory == "shared" and value.staging and _crossing(v, value):
            yield _Need(value, value.staging, True)


def _crossing(v: Variables, value: Value) -> list[tuple[Use, int]]:
    """Uses that may be in another group than the producer."""
    src = v.problem.index(value.src)
    users = [(use, v.problem.index(use.op)) for use in value.uses]
    return [(use, op) for use, op in users if v.same(src, op) is not True]


def _allocate(v: Variables, memory: Kind, capacity: int) -> list[Room]:
    needs = list(_needs(v, memory))
    if not needs:
        return []
    grain = math.gcd(*(need.size for need in needs))
    top = capacity // grain
    boxes: list[tuple[cp_model.IntervalVar, cp_model.IntervalVar]] = []
    load: list[tuple[cp_model.IntervalVar, cp_model.LinearExprT]] = []
    rooms: list[Room] = []
    for need in needs:
        room, parts = _room(v, memory, need, grain, top)
        rooms.append(room)
        for across, down, height in parts:
            boxes.append((across, down))
            load.append((across, height))
    v.model.add_no_overlap_2d([box[0] for box in boxes], [box[1] for box in boxes])
    v.model.add_cumulative([part[0] for part in load], [part[1] for part in load], top)
    return rooms


_Part = tuple[cp_model.IntervalVar, cp_model.IntervalVar, cp_model.LinearExprT]


def _room(v: Variables, memory: Kind, need: _Need, grain: int, top: int) -> tuple[Room, list[_Part]]:
    """The variables of one place and its rectangles."""
    value, size = need.value, need.size // grain
    address = v.model.new_int_var(0, top, f"address[{value.id}]")
    if value.resident and not need.staging:
        copies = v.model.new_int_var(1 + value.slots, 1 + value.slots, "")
        parts = [_always(v, True, address, copies, size, top)]
        return Room(value.id, memory, need.staging, True, address, copies, need.size, grain), parts
    length, present = _range(v, need)
    slots = 0 if need.staging else value.slots
    turns = v.model.new_int_var(0 if slots else 1, v.most_copies, "")
    copies = v.model.new_int_var(1, v.most_copies + slots, f"copies[{value.id}]")
    v.model.add(copies == turns + slots)
    v.model.add(length <= turns * v.interval)
    if slots:
        parts = [_always(v, True, address, copies, size, top)]
        return Room(value.id, memory, need.staging, True, address, copies, need.size, grain), parts
    many = v.model.new_bool_var("")
    v.model.add(copies >= 2).only_enforce_if(many)
    v.model.add(copies == 1).only_enforce_if(many.negated())
    alone = v.both(present, negate(many), "")
    parts = [*_sometimes(v, need, alone, address, size, length, top), _always(v, many, address, copies, size, top)]
    return Room(value.id, memory, need.staging, present, address, copies, need.size, grain), parts


def _range(v: Variables, need: _Need) -> tuple[cp_model.IntVar, Literal]:
    """The live range's length, and whether it is not empty."""
    src = v.problem.index(need.value.src)
    length = v.model.new_int_var(0, v.latest_end, "")
    users = _crossing(v, need.value) if need.staging else [(use, v.problem.index(use.op)) for use in need.value.uses]
    for use, op in users:
        reach = v.model.add(length >= v.start[op] + use.distance * v.interval + use.hold - v.start[src])
        if need.staging:
            v.when(reach, negate(v.same(src, op)))
    present = v.model.new_bool_var("")
    v.model.add(length >= 1).only_enforce_if(present)
    v.model.add(length == 0).only_enforce_if(present.negated())
    return length, present


def _always(v: Variables, present: Literal, address: cp_model.IntVar, copies: cp_model.IntVar, size: int, top: int) -> _Part:
    """Places kept at every residue."""
    height = v.model.new_int_var(0, top, "")
    v.when(v.model.add(height == size * copies), present)
    end = v.model.new_int_var(0, top, "")
    across = v.model.new_optional_fixed_size_interval_var(0, 2 * v.interval, present, "")
    return across, v.model.new_optional_interval_var(address, height, end, present, ""), height


def _sometimes(
    v: Variables, need: _Need, present: Literal, address: cp_model.IntVar, size: int, length: cp_model.IntVar, top: int
) -> list[_Part]:
    """One place, taken from the producer's residue on for the live range, at most a period."""
    residue = v.residue[v.problem.index(need.value.src)]
    width = v.model.new_int_var(0, v.interval, "")
    v.when(v.model.add(width == length), present)
    end = v.model.new_int_var(0, 2 * v.interval, "")
    down = v.model.new_optional_fixed_size_interval_var(address, size, present, "")
    v.when(v.model.add(address + size <= top), present)
    turns = [v.model.new_optional_interval_var(residue + turn * v.interval, width, end + turn * v.interval, present, "") for turn in (0, 1)]
    return [(across, down, size) for across in turns]


def places(solver: cp_model.CpSolver, rooms: list[Room]) -> tuple[Place, ...]:
    """The allocation of a solution, in order of memory and address."""
    found = [
        Place(room.value, room.memory, solver.value(room.address) * room.grain, room.size, solver.value(room.copies), room.staging)
        for room in rooms
        if room.present is True or solver.boolean_value(room.present)
    ]
    return tuple(sorted(found, key=lambda place: (place.memory, place.address, place.value, place.staging)))
