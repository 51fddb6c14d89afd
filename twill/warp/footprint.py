"""Where channels lie in shared memory, and how much they take together.

Takes the channels of a kernel; gives addresses, or bytes. Channels follow each other, but those on different
sides of an `if` outside of loops, of which a thread block takes one side, begin at the same address. (Their
barriers are apart: all are initialized.) Where one group fills and reads all of them, those of a loop lie
where those of loops before it did. (Backward attention of Triton's tutorial in tiles of 64 x 32 has four
loops, one behind the other: 69 KB instead of 172, so that two thread blocks share an SM.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from twill.ir.loop import Op, Value
from twill.ops.table import role
from twill.warp.channels import BARRIERS, ChannelPlan
from twill.warp.dataflow import Code

Sides = tuple[tuple[int, int], ...]
"""The `if`s around something, the outermost first, each with the side on which it is."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """How the channels of a kernel lie."""

    sides: Mapping[str, Sides]
    """By the channel that has slots; `if`s with channels on one side only count as none."""
    around: Mapping[int, Sides]
    """By the index of an operation."""
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By the channel that has slots: the first and the last operation, by index, between which one group uses
    it; empty where several do."""

    def alone(self, plan: ChannelPlan, op: Op) -> bool:
        """Whether an operation is executed only where no other channel is at the address of this one."""
        others = (end for name, (_, end) in self.times.items() if name != plan.slot_owner)
        over = all(end < op.index for end in others)
        return over and set(self.sides[plan.slot_owner]) <= set(self.around.get(op.index, ()))

    def bytes(self, strides: Mapping[str, int], depths: Mapping[str, int]) -> int:
        """Of so many slots of each channel, with their barriers."""
        barriers = sum(BARRIERS * depth for depth in depths.values())
        return barriers + self.addresses({name: strides[name] * depth for name, depth in depths.items()})[1]

    def addresses(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Where each channel begins, and where the last one ends."""
        return self._timed(sizes) if self.times else self._placed(tuple(sizes), sizes, 0, 0)

    def _timed(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Each as low as those allow that are in use at the same time."""
        begins = dict[str, int]()
        for name in sorted(sizes, key=lambda name: self.times[name]):
            begin, end = self.times[name]
            used = [one for one in begins if self.times[one][0] <= end and begin <= self.times[one][1]]
            offset = 0
            for one in sorted(used, key=lambda one: begins[one]):
                if begins[one] < offset + sizes[name]:
                    offset = max(offset, begins[one] + sizes[one])
            begins[name] = offset
        return begins, max((begins[name] + sizes[name] for name in begins), default=0)

    def _placed(
        self, names: Sequence[str], sizes: Mapping[str, int], offset: int, level: int
    ) -> tuple[dict[str, int], int]:
        """Of channels that are on the same sides of the outermost `level` `if`s, from `offset` on."""
        begins, later = dict[str, int](), dict[int, dict[int, list[str]]]()
        for name in names:
            if len(self.sides[name]) > level:
                branch, side = self.sides[name][level]
                later.setdefault(branch, {}).setdefault(side, []).append(name)
            else:
                begins[name], offset = offset, offset + sizes[name]
        for own in later.values():
            ends = [offset]
            for side in own.values():
                found, end = self._placed(side, sizes, offset, level + 1)
                begins |= found
                ends.append(end)
            offset = max(ends)
        return begins, offset


def footprint(code: Code, plans: Sequence[ChannelPlan]) -> Footprint:
    """The sides of `if`s on which all that fills each channel is: what reads it is there, too."""
    around = _around(code)
    found = dict[str, Sides]()
    for plan in plans:
        for value in (value for use in plan.sources for value in use):
            own = () if value.producer is None else around.get(value.producer, ())
            found[plan.slot_owner] = _common(found.get(plan.slot_owner, own), own)
    taken = {step for own in found.values() for step in own}
    divided = {branch for branch, side in taken if (branch, 1 - side) in taken}
    sides = {name: tuple(step for step in own if step[0] in divided) for name, own in found.items()}
    own = {plan.slot_owner: sides.get(plan.slot_owner, ()) for plan in plans}
    return Footprint(own, around, _times(code, plans))


def _times(code: Code, plans: Sequence[ChannelPlan]) -> dict[str, tuple[int, int]]:
    """As `Footprint.times`: empty where groups use channels beside each other."""
    groups = {group for plan in plans for group in (plan.producer, *plan.consumers)}
    if len(groups) != 1 or any(plan.sharers or plan.alternating for plan in plans):
        return {}
    loops, found = _loops(code), dict[str, tuple[int, int]]()
    for plan in plans:
        users = [index for use in plan.sources for value in use for index in _users(code, value)]
        if not users:
            return {}
        spans = [loops.get(index, (index, index)) for index in users]
        found[plan.id] = min(begin for begin, _ in spans), max(end for _, end in spans)
    return found


def _users(code: Code, value: Value) -> set[int]:
    """The operation that makes a value and those that need it, directly or through others: up to MMAs, whose
    results are in registers. Everything where it is handed from iteration to iteration."""
    waiting, found = [value], {-1 if value.producer is None else value.producer}
    while waiting:
        one = waiting.pop()
        if one.id in code.moved:
            return set(code.ops)
        for user in code.users.get(one.id, ()):
            if user.index not in found:
                found.add(user.index)
                waiting += () if role(user) in ("wgmma", "dot") else user.results
    return found


def _loops(code: Code) -> dict[int, tuple[int, int]]:
    """By the index of an operation in a loop, or of a loop: the first and last of the outermost one."""
    found = dict[int, tuple[int, int]]()
    for op in code.ops.values():
        if role(op) in ("for", "while") and op.index not in found:
            own = [op.index, *(one.index for one in op.inner())]
            found |= dict.fromkeys(own, (min(own), max(own)))
    return found


def _common(one: Sides, other: Sides) -> Sides:
    """The outermost ones that two have in common."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(step for step, _ in alike)


def _around(code: Code) -> dict[int, Sides]:
    """The sides of `if`s outside of loops on which each operation is."""
    found = dict[int, Sides]()

    def enter(op: Op, sides: Sides, repeated: bool) -> None:
        found[op.index] = sides
        divided, looped = role(op) == "if" and not repeated, repeated or role(op) in ("for", "while")
        for side, region in enumerate(op.regions):
            for inner in (one for block in region.blocks for one in block.ops):
                enter(inner, (*sides, (op.index, side)) if divided else sides, looped)

    for op in (one for block in code.function.body.blocks for one in block.ops) if code.function.body else ():
        enter(op, (), False)
    return found
