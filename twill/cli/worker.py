"""Runs work in a child process, so that Ctrl-C stops it at once whatever a solver is doing, and no process is
left behind.

The child leads a process group that includes the solvers it starts. An interruption kills the group. On
systems without `fork` the work runs in this process instead.
"""

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from twill.cli.guard import guarded
from twill.diagnostics import TwillError
from twill.engine.subprocess_engine import end_with_parent
from twill.ir.search import Progress

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")
Event = TypeVar("Event")


def run(work: Callable[[Callable[[Event], None]], Result], on_event: Callable[[Event], None]) -> Result:
    """`work(on_event)`, in a child; events and the result come back through a pipe, and an exception is
    raised here again.

    Raises KeyboardInterrupt on Ctrl-C, SIGTERM or SIGHUP, after killing the child and all that it started,
    and TwillError where the child dies of something else.
    """
    if not hasattr(os, "fork"):
        return work(on_event)
    receiver, sender = get_context("fork").Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with_parent(parent)
        receiver.close()
        _serve(work, sender)
    sender.close()
    try:
        with _Stoppable():
            return _listen(receiver, on_event)
    except EOFError:
        pass
    finally:
        status = _end(child)
    raise _died(status)


def watched(work: Callable[[Callable[[str, Progress], None]], Result]) -> Result:
    """`run` for work that searches for schedules, with its progress on standard error; each event comes with
    the name of its loop."""
    from twill.cli.progress import shown_by_name

    with shown_by_name() as show:
        return run(lambda on_event: work(lambda name, event: on_event((name, event))), show)


def alone(work: Callable[[], Result]) -> Result:
    """`run` for work without progress events."""
    return run(lambda on_event: work(), _ignore)


def _ignore(event: object) -> None:
    pass


def _died(status: int) -> TwillError:
    """The error for a child that ended without an answer; a negative status is a signal."""
    if -status == signal.SIGKILL:
        return TwillError(
            "the solver process was killed before it had an answer",
            help=(
                "it may have run out of memory: lower --max-in-flight or --time-limit, or use a machine with"
                " more memory"
            ),
        )
    how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return TwillError(
        f"the solver process {how} before it had an answer",
        help="try another --engine, and please report this",
    )


def _serve(work: Callable[[Callable[[Any], None]], Any], sender: Connection) -> None:
    """The child: do the work, send the result, and exit without the parent's clean-up handlers."""
    try:
        os.setpgid(0, 0)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        try:
            sender.send(("result", work(lambda event: sender.send(("event", event)))))
        except Exception as problem:  # the parent raises it again
            sender.send(("error", guarded(problem)))
    finally:
        os._exit(0)


def _listen(receiver: Connection, on_event: Callable[[Any], None]) -> Any:
    while True:
        kind, content = receiver.recv()
        match kind:
            case "event":
                on_event(content)
            case "error":
                raise content
            case _:
                return content


def _end(child: int) -> int:
    """Kill the child's process group and reap the child: its exit status, or the negated number of the signal
    that ended it."""
    for kill, target in ((os.killpg, child), (os.kill, child)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Stoppable:
    """Within this block SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does, and Ctrl-C works in a
    background process too."""

    def __enter__(self) -> None:
        self.before = [(number, signal.signal(number, signal.default_int_handler)) for number in _SIGNALS]

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before:
            signal.signal(number, handler)
