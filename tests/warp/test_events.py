"""The order of what a group does at the same time."""

from types import SimpleNamespace
from typing import Any

import pytest

from twill.warp.events import Event, ordered

INTERVAL = 100


def group(channels: dict[int, Any]) -> Any:
    """One that reads slots: the channel by the id of the value that an operation reads."""

    def when(time: int) -> tuple[int, int]:
        return divmod(time, INTERVAL)

    def channel(leaf: Any) -> Any:
        found = channels.get(leaf.source.id)
        return None if found is None else (found, 0)

    return SimpleNamespace(
        id=0, when=when, channel=channel, names={1: "accumulator", 2: "tile"}, code=SimpleNamespace(ops={})
    )


@pytest.mark.parametrize(("depth", "first"), [(1, "release"), (2, "mma")])
def test_an_mma_comes_behind_the_release_of_its_slot(depth: int, first: str) -> None:
    """An MMA is issued first of what happens at once, unless the slot that it reads is filled again only
    behind a release at the same time: it would wait forever."""
    slots = SimpleNamespace(id="tiles", depth=depth)
    read = SimpleNamespace(source=SimpleNamespace(id=2), distance=0)
    task = SimpleNamespace(id="dot", writes=(SimpleNamespace(id=1),), leaves=(read,), ops=())
    mma: Any = Event(0, 0, 0, task, (0, 64))  # pyright: ignore[reportArgumentType]
    release: Any = Event(INTERVAL, 2, 0, channel=slots)  # pyright: ignore[reportArgumentType]
    found = ordered(group({2: slots}), [release, mma])
    assert ("release" if found[0] is release else "mma") == first
