"""Local channels: tiles that a group's own threads write to shared memory, where its MMAs read them.

All threads that fill such a channel wait for it too, in the same program order. So one group barrier at the
`ConsumerWait` stands for the full barrier: every thread has written by then. The same barriers order the
reads of a slot before its next fill, where the statements have the order that `reused_behind_a_wait` checks;
otherwise a group barrier stands in front of the fill.
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


def reused_behind_a_wait(group: WarpProgram, channel: Channel) -> bool:
    """Whether a group barrier lies between the last read of each slot of a local channel and its next fill:
    the release of n comes before the wait for n + 1, and that before the fill of n + depth, in every loop.
    Prologue and epilogue keep the order of the steady state."""
    loops = [one for one in walk(group.body) if isinstance(one, Pipelined)]
    used = [places for one in loops if (places := _places(one.steady, channel.id))]
    return channel.depth > 1 and all(_in_order(places, channel.depth) for places in used)


def _in_order(places: Mapping[type[Statement], _Place], depth: int) -> bool:
    if len(places) < len(_KINDS):
        return False
    filled, waited, released = (places[kind] for kind in _KINDS)
    return released < waited.later(1) and waited < filled.later(depth - 1)


_KINDS = (ProducerStore, ConsumerWait, ConsumerRelease)


def _places(steady: Sequence[Statement], channel: str) -> Mapping[type[Statement], _Place]:
    """Of the fill, the wait and the release of a channel; empty where the loop does not use it."""
    return {
        type(one): _Place(one.at.iteration.offset, position)
        for position, one in enumerate(steady)
        if isinstance(one, _KINDS) and one.channel == channel
    }
