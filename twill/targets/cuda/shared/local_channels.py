"""Local channels: tiles that a group's own threads write to shared memory, where its MMAs read them.

All threads that fill such a channel wait for it too, in the same program order. So one group barrier at the
`ConsumerWait` stands for the full barrier: every thread has written by then. The same barriers, of all local
channels of the group, order the reads of a slot before its next fill, where the statements have the order
that `reused_behind_a_wait` checks; otherwise a group barrier stands in front of the fill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.ir.channels import Channel
from twill.ir.program import WarpProgram
from twill.ir.statements import ConsumerRelease, ConsumerWait, Pipelined, ProducerStore, Statement, walk


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """When the statement for iteration n is executed, relative to step n of the steady state."""

    step: int
    position: int

    def later(self, iterations: int) -> "_Place":
        """The same statement for a later iteration."""
        return _Place(self.step + iterations, self.position)


def reused_behind_a_wait(group: WarpProgram, channels: Sequence[Channel], channel: Channel) -> bool:
    """Whether a group barrier lies between the last read of each slot of a local channel and its next fill:
    the release of n comes before the wait of one local channel for n + k, and that before the fill of n +
    depth, in all loops with the same k from 0 to depth, so that there is such an iteration. Prologue and
    epilogue keep the order of the steady state."""
    loops = [one for one in walk(group.body) if isinstance(one, Pipelined)]
    used = [one for one in loops if _places(one.steady, channel.id)]
    parts = [part for one in used for part in (one.steady, one.short) if part]
    local = [one.id for one in channels if one.local and one.producer == group.id]
    return bool(parts) and any(
        all(_between(part, channel, other, k) for part in parts)
        for other in local
        for k in range(channel.depth + 1)
    )


def _between(part: Sequence[Statement], channel: Channel, other: str, k: int) -> bool:
    """Whether the wait of another channel, or of this one, stands between reads and fills of a slot."""
    places, waits = _places(part, channel.id), _places(part, other)
    if len(places) < len(_KINDS) or ConsumerWait not in waits:
        return False
    filled, released = places[ProducerStore].later(channel.depth), places[ConsumerRelease]
    return released < waits[ConsumerWait].later(k) < filled


_KINDS = (ProducerStore, ConsumerWait, ConsumerRelease)


def _places(steady: Sequence[Statement], channel: str) -> Mapping[type[Statement], _Place]:
    """Of the fill, the wait and the release of a channel; empty where the loop does not use it."""
    return {
        type(one): _Place(one.at.iteration.offset, position)
        for position, one in enumerate(steady)
        if isinstance(one, _KINDS) and one.channel == channel
    }
