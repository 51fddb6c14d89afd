"""Which builds have their turn, beside those of other programs."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from twill.launch.one_at_a_time import alone, locked, tried
from twill.triton import slots
from twill.triton.slots import Slot, Slots, free


@pytest.fixture(autouse=True)
def one_slot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Beside the program; two while a launch waits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(slots, "BESIDE", 1)
    monkeypatch.setattr(slots, "WHILE_WAITING", 2)
    monkeypatch.setattr(slots, "POLL", 0.01)


class Builds:
    """That work until they are told to end."""

    def __init__(self) -> None:
        self.slots, self.begun = Slots(), list[str]()
        self._ends = dict[str, threading.Event]()
        self._threads = dict[str, threading.Thread]()

    def begin(self, *keys: str) -> None:
        for key in keys:
            queued = len(self._threads)
            self._ends[key] = threading.Event()
            self._threads[key] = threading.Thread(target=self._build, args=(key,), daemon=True)
            self._threads[key].start()
            until(lambda queued=queued: len(self.begun) + len(self.slots._queue) > queued)  # pyright: ignore[reportPrivateUsage]

    def end(self, *keys: str) -> None:
        for key in keys:
            self._ends[key].set()
        for key in keys:
            self._threads[key].join(10)

    def _build(self, key: str) -> None:
        with self.slots.turn(key):
            self.begun.append(key)
            self._ends[key].wait(10)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(0.03)


def test_builds_have_their_turn_in_the_order_in_which_they_were_begun() -> None:
    builds, keys = Builds(), "abcdef"
    builds.begin(*keys)
    for count, key in enumerate(keys, 1):
        until(lambda count=count: len(builds.begun) >= count)
        assert builds.begun == [*keys[:count]]
        builds.end(key)


def test_what_a_launch_waits_for_begins_at_once() -> None:
    """Before those that were begun earlier, and beside the one that has the only slot."""
    builds = Builds()
    builds.begin("a", "b", "c", "d")
    until(lambda: bool(builds.begun))
    with builds.slots.wanted("d"):
        until(lambda: len(builds.begun) >= 3)
        assert builds.begun[0] == "a"
        assert sorted(builds.begun) == ["a", "b", "d"]  # b has the second slot, which there is meanwhile
    builds.end("a", "b", "d")
    builds.end("c")
    assert builds.begun[3:] == ["c"]


def test_builds_of_other_programs_count() -> None:
    script = "from twill.triton.slots import free; one = free(1); print(bool(one), flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout
    assert other.stdout.readline() == "True\n"
    builds = Builds()
    builds.begin("a")
    time.sleep(0.1)
    assert not builds.begun
    other.communicate("\n")
    until(lambda: bool(builds.begun))
    assert builds.begun == ["a"]
    builds.end("a")


def test_a_process_that_waits_for_another_one_gives_its_slot_to_a_third() -> None:
    """The file stays open in the program that gave it."""
    given = free(1)
    assert given
    slot = Slot(os.dup(given.fileno()))
    assert free(1) is None
    with slot.aside():
        other = free(1)
        assert other
        assert free(1) is None
    assert free(2) is None  # the process that waited has taken the second one
    other.close()
    assert free(1)


def test_a_build_without_a_slot_steps_aside_as_well() -> None:
    with Slot().aside():
        assert free(1)


def test_one_of_several_works_and_the_others_step_aside(tmp_path: Path) -> None:
    path, at_work, most, aside = tmp_path / "work.lock", 0, 0, 0

    @contextmanager
    def stepped() -> Generator[None]:
        nonlocal aside
        aside += 1
        yield

    def work() -> None:
        nonlocal at_work, most
        with alone(path, stepped):
            at_work += 1
            most = max(most, at_work)
            time.sleep(0.02)
            at_work -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (most, at_work) == (1, 0)
    assert aside >= 3
    assert locked(path)


def test_what_is_done_already_is_waited_for_by_nobody(tmp_path: Path) -> None:
    path, found = tmp_path / "work.lock", list[str]()
    with alone(path, Slot().aside, lambda: bool(found)):
        found.append("what helps")
        with alone(path, Slot().aside, lambda: bool(found)):
            assert not locked(path)


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with tried(tmp_path / "file" / "lock") as mine:
        assert mine
    with alone(tmp_path / "file" / "lock", Slot().aside):
        pass
