"""How many slots each channel of a kernel has: those that the schedule needs, then as many as fit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.warp.channels import BARRIERS, LOADED, ChannelPlan
from twill.warp.footprint import Footprint

SMALL = 2048
"""Bytes of a slot that holds vectors alone."""
LOCAL = 2
"""Slots that a local channel has at most, if the schedule needs no more."""


class SharedMemoryError(TwillError):
    """What a schedule keeps in shared memory does not fit there together with what else lies there."""


def _used(channel: ChannelPlan) -> int:
    """The slots that a schedule gives, less those that only let loads run ahead of the last iteration."""
    return max(channel.depth - channel.spare, min(channel.depth, channel.fills or channel.depth))


def deepen(
    channels: tuple[ChannelPlan, ...],
    available: int,
    given: Mapping[str, int],
    most: int,
    footprint: Footprint,
) -> tuple[ChannelPlan, ...]:
    """Slots, with their barriers, for every channel used in a loop: two for each, then three, and so on while
    `available` bytes last, up to `most`; or as many as given. Channels of small slots (vectors) have no more
    than those that the loads run ahead in, and local ones at most two: the second spares a barrier before
    each fill. None has more than it is filled in all iterations, where that is constant.

    Where the slots that the schedule gives do not fit, those go first in which loads only run ahead. Raises
    TwillError where not even the slots that the schedule needs fit.
    """
    for name in given:
        if name not in {channel.id for channel in channels}:
            raise TwillError(
                f"there is no channel {name!r}",
                help=f"the channels: {', '.join(channel.id for channel in channels)}",
            )
    every, channels = channels, tuple(channel for channel in channels if channel.slot_owner == channel.id)
    available -= sum(BARRIERS * channel.barriers for channel in channels if channel.by_warpgroup)
    depths = _fitting(channels, available, given, footprint)
    limits = {
        channel.id: min(LOCAL if channel.local else most, channel.fills or most)
        for channel in channels
        if channel.id not in given and not channel.once and (channel.local or _runs_ahead(channel, channels))
    }
    strides = {channel.id: channel.stride for channel in channels}
    depths = _raised(depths, strides, limits, available, footprint)
    return tuple(replace(channel, depth=depths[channel.slot_owner]) for channel in every)


def _runs_ahead(channel: ChannelPlan, channels: Iterable[ChannelPlan]) -> bool:
    """Whether more slots let loads run ahead: those of loads, and of numbers that a loading group hands on,
    so that it does not wait for their readers before it loads what the numbers say."""
    loading = {one.producer for one in channels if one.filled_by in LOADED and not one.once}
    numbers = all(tensor.shape == (1,) for tensor in channel.tensors)
    return channel.filled_by in LOADED or (numbers and not channel.local and channel.producer in loading)


def _fitting(
    channels: tuple[ChannelPlan, ...], available: int, given: Mapping[str, int], footprint: Footprint
) -> dict[str, int]:
    """The slots that the schedule gives, less those in which loads only run ahead where they do not fit."""
    depths = {channel.id: given.get(channel.id, _used(channel)) for channel in channels}
    strides = {channel.id: channel.stride for channel in channels}
    used = footprint.bytes(strides, depths)
    spare = [
        channel.id
        for channel in channels
        if channel.id not in given
        for _ in range(channel.spare - channel.depth + depths[channel.id])
    ]
    while used > available and spare:
        name = max(spare, key=lambda name: (strides[name], depths[name], name))
        spare.remove(name)
        depths[name] -= 1
        used = footprint.bytes(strides, depths)
    if used > available:
        raise SharedMemoryError(
            f"the channels need {used} bytes of shared memory, {available} are left",
            help="smaller tiles, or fewer slots",
        )
    return depths


def _raised(
    depths: Mapping[str, int],
    strides: Mapping[str, int],
    limits: Mapping[str, int],
    available: int,
    footprint: Footprint,
) -> dict[str, int]:
    """One slot more for each channel with a limit, again and again, while the memory lasts."""
    raised = dict(depths)
    small = [name for name in limits if strides[name] <= SMALL]
    large = [name for name in limits if name not in small]

    def raise_to(bound: int, names: Iterable[str]) -> None:
        for name in names:
            more = raised | {name: raised[name] + 1}
            if raised[name] < min(bound, limits[name]) and footprint.bytes(strides, more) <= available:
                raised[name] += 1

    for level in range(2, max(limits.values(), default=0) + 1):
        raise_to(level, large)
        raise_to(max(raised[name] for name in limits), small)
    return raised
