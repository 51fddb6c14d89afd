"""Work in a process of its own, so that Ctrl-C is answered at once whatever a solver is doing, and nothing survives it.

The child leads a process group; solvers it starts belong to it. An interruption kills the group. On systems without `fork` the work
runs in this process instead.
"""

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from twill.diagnostics import TwillError
from twill.ir.search import Progress
from twill.smt.subprocess_engine import end_with_parent

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")
Event = TypeVar("Event")


def run(work: Callable[[Callable[[Event], None]], Result], tell: Callable[[Event], None]) -> Result:
    """`work(tell)`, in a child; events and the result come back through a pipe, and an exception is raised here again.

    Raises KeyboardInterrupt on Ctrl-C, SIGTERM or SIGHUP, after killing the child and all that it started, and TwillError where the child
    dies of something else.
    """
    if not hasattr(os, "fork"):
        return work(tell)
    receiver, sender = get_context("fork").Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        receiver.close()
        _serve(work, sender)
    sender.close()
    try:
        with _Stoppable():
            return _listen(receiver, tell)
    except EOFError:
        pass
    finally:
        status = _end(child)
    raise _died(status)


def watched(work: Callable[[Callable[[str, Progress], None]], Result]) -> Result:
    """`run` for work that searches for schedules, which is shown; an event comes with the name of its loop."""
    from twill.cli.progress import shown_by_name

    with shown_by_name() as show:
        return run(lambda tell: work(lambda name, event: tell((name, event))), show)


def alone(work: Callable[[], Result]) -> Result:
    """`run` for work that tells nothing."""
    return run(lambda tell: work(), _ignore)


def _ignore(event: object) -> None:
    pass


def _died(status: int) -> TwillError:
    """Why there is no answer: an exit status, or a signal where that is negative."""
    if -status == signal.SIGKILL:
        return TwillError(
            "the solving process was killed before it had an answer",
            help="memory may have run out: allow fewer --copies or a smaller --time-limit, or take a machine with more of it",
        )
    how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return TwillError(f"the solving process {how} before it had an answer", help="try another --engine, and please report this")


def _serve(work: Callable[[Callable[[Any], None]], Any], sender: Connection) -> None:
    """The child: work, send what it gave, leave without the parent's clean-up."""
    try:
        end_with_parent()
        os.setpgid(0, 0)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        try:
            sender.send(("result", work(lambda event: sender.send(("event", event)))))
        except Exception as problem:  # whatever it is, the parent raises it again
            sender.send(("error", problem))
    finally:
        os._exit(0)


def _listen(receiver: Connection, tell: Callable[[Any], None]) -> Any:
    while True:
        kind, content = receiver.recv()
        match kind:
            case "event":
                tell(content)
            case "error":
                raise content
            case _:
                return content


def _end(child: int) -> int:
    """Kill the child's group and collect it: its exit status, or the signal, negated, that ended it."""
    for kill, target in ((os.killpg, child), (os.kill, child)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Stoppable:
    """While this lasts, SIGTERM and SIGHUP interrupt as Ctrl-C does, and Ctrl-C does in a background process too."""

    def __enter__(self) -> None:
        self.before = [(number, signal.signal(number, signal.default_int_handler)) for number in _SIGNALS]

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before:
            signal.signal(number, handler)
