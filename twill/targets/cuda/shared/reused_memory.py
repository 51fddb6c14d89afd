"""Shared memory that channels have had before: what stands before its first use by another one.

One group may use channels one after the other at the same addresses (`warp.footprint`). All of its warps have
read the tiles of the ones before then, and what they wrote is visible to TMA and MMAs. Takes an `Emitter` and
a statement outside of loops, or a loop; gives C.
"""

from itertools import takewhile

from twill.ir.channels import Channel
from twill.ir.effects import SlotPhase, effects
from twill.ir.operands import Slot
from twill.ir.program import Program
from twill.ir.statements import Pipelined, ProducerLoad, ProducerStore, Statement, walk
from twill.targets.cuda.emitter import Emitter


def freed(emitter: Emitter, it: Pipelined | ProducerLoad | ProducerStore) -> list[str]:
    """Nothing where the channels of the statement have memory of their own, or that of another side of an
    `if`; the barrier of all threads where they do not."""
    program = emitter.program
    if len(program.groups) > 1:
        return []
    before = takewhile(lambda one: one is not it, walk(emitter.group.body))
    earlier, own = (_channels(program, part) for part in (tuple(before), (it,)))
    others = [one for one in earlier if one not in own]
    if not any(_overlap(one, other) for one in own for other in others):
        return []
    return ["fence_async_shared();", emitter.scope().group_barrier()]


def _channels(program: Program, statements: tuple[Statement, ...]) -> list[Channel]:
    """Those that statements use, at any depth."""
    names = set[str]()
    for one in walk(statements):
        what = effects(one)
        every = (*what.reads, *what.writes, *what.acquires, *what.releases)
        names |= {each.channel for each in every if isinstance(each, Slot | SlotPhase)}
    return [one for one in program.channels if one.id in names]


def _overlap(one: Channel, other: Channel) -> bool:
    first, second = (each.offset + each.stride * each.depth for each in (one, other))
    return one.offset < second and other.offset < first
