"""Positions in channels that a loop keeps from one iteration to the next.

A slot and its phase follow from a sequence number by a division. In a loop that does nothing but issue MMAs
that division lies between one MMA and the next, on the way to the descriptor: on an H200 a GEMM of 128 x 128
tiles with 6 slots takes 7% fewer SM cycles with kept positions (8192 x 8192 x 1024 and 4096). The same holds
for a loop that fills one channel (1 to 6% in GEMMs), and for one of mma.sync. Beside arithmetic it is hidden,
and kept positions cost registers and instructions: attention gains nothing, its backward loses 1%, and a loop
that fills four channels by copies loses 9%. A position of the next round follows from that of the same slot:
where a group fills the slots that it reads, a loop has 68 instructions for 80 (vLLM's fused_moe in tiles of
16 x 32 x 64).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.ir.channels import Channel
from twill.ir.effects import effects
from twill.ir.operands import Iteration, Slot
from twill.ir.program import Program
from twill.ir.statements import (
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    SchedulingFence,
    SlotPhase,
    Statement,
)
from twill.ops.mma import is_plain
from twill.ops.table import role
from twill.targets.cuda.names import channel as channel_name
from twill.targets.cuda.registers.elements import sequence

_ISSUING = (
    BarrierArrive,
    BarrierWait,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    SchedulingFence,
)
"""Statements of a loop that does nothing but issue MMAs, or loads."""


@dataclass(frozen=True, slots=True)
class Positions:
    """The kept positions of one loop, by channel and by how many iterations behind the newest they are
    (less than 0: ahead of it)."""

    names: Mapping[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    rounds: Mapping[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict[tuple[str, int], tuple[str, int]]
    )
    """Positions that are not kept, with those of the same slots in the round before."""

    def of(self, channel: str, where: Iteration) -> str:
        """The position of a slot in C: kept, what follows from one that is, or its sequence number."""
        kept = self._kept((channel, where.offset)) if where.base == "newest" else None
        return kept or sequence(channel, where)

    def _kept(self, position: tuple[str, int]) -> str | None:
        before = self.rounds.get(position)
        return f"{self._kept(before)}.next_round()" if before else self.names.get(position)

    def start(self, least: int) -> list[str]:
        """Before a loop whose first iteration is `least`."""
        lines = list[str]()
        for (channel, behind), name in self.names.items():
            first = sequence(channel, Iteration("first", least - behind))
            lines.append(f"auto {name} = {channel_name(channel)}.position({first});")
        return lines

    def advance(self) -> list[str]:
        """At the end of an iteration."""
        return [f"{name}.advance();" for name in self.names.values()]


NOTHING_KEPT = Positions()


def kept(program: Program, steady: Sequence[Statement], least: int) -> Positions:
    """What a loop with this steady state, whose first iteration is `least`, keeps. Nothing, unless it does
    nothing but issue MMAs or fill one channel; nothing of iterations before the first one."""
    filled = {one.channel for one in steady if isinstance(one, ProducerLoad)}
    if len(filled) > 1 or not all(isinstance(one, _ISSUING) or _is_mma(program, one) for one in steady):
        return NOTHING_KEPT
    found = dict.fromkeys(
        (slot.channel, slot.iteration.offset)
        for one in steady
        for slot in _slots(one)
        if slot.iteration.base == "newest"
        and slot.iteration.offset <= least
        and _several(program.channel(slot.channel))
    )
    before = {
        (channel, behind): (channel, behind + program.channel(channel).depth) for channel, behind in found
    }
    rounds = {one: other for one, other in before.items() if other in found}
    return Positions({one: _name(*one) for one in found if one not in rounds}, rounds)


def _is_mma(program: Program, statement: Statement) -> bool:
    """Whether it is an MMA of warps and nothing else."""
    ops = [program.op(index) for index in statement.ops] if isinstance(statement, Compute) else []
    return bool(ops) and all(role(op) == "layout" or (role(op) == "dot" and not is_plain(op)) for op in ops)


def _slots(statement: Statement) -> Iterator[Slot | SlotPhase]:
    done = effects(statement)
    for one in (*done.reads, *done.acquires, *done.releases):
        if isinstance(one, Slot | SlotPhase):
            yield one


def _several(channel: Channel) -> bool:
    return channel.depth > 1 and not channel.local and not channel.sharers


def _name(channel: str, behind: int) -> str:
    where = "" if behind == 0 else str(behind) if behind > 0 else f"_ahead{-behind}"
    return f"position{where}_{channel}"
