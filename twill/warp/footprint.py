"""Where channels lie in shared memory, and how much they take together.

Takes the channels of a kernel; gives addresses, or bytes. Channels follow each other, but those on different
sides of an `if` outside of loops, of which a thread block takes one side, begin at the same address. (Their
barriers are apart: all are initialized.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from twill.ir.loop import Op
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

    def alone(self, plan: ChannelPlan, op: Op) -> bool:
        """Whether an operation is executed only where no other channel is at the address of this one."""
        return set(self.sides[plan.slot_owner]) <= set(self.around.get(op.index, ()))

    def bytes(self, strides: Mapping[str, int], depths: Mapping[str, int]) -> int:
        """Of so many slots of each channel, with their barriers."""
        barriers = sum(BARRIERS * depth for depth in depths.values())
        return barriers + self.addresses({name: strides[name] * depth for name, depth in depths.items()})[1]

    def addresses(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Where each channel begins, and where the last one ends."""
        return self._placed(tuple(sizes), sizes, 0, 0)

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
    return Footprint({plan.slot_owner: sides.get(plan.slot_owner, ()) for plan in plans}, around)


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
