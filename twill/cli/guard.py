"""Exceptions that no input should cause, as one error with the operation that was worked on.

Takes an exception with its traceback; gives an `InternalError`. The operation is the innermost one that a
local variable of a frame of the traceback refers to.
"""

import traceback
from collections.abc import Iterable
from types import FrameType

from twill.diagnostics import InternalError, TwillError
from twill.ir.loop import Loop, Module, Op


def guarded(problem: Exception) -> Exception:
    """What to show of an exception: itself, where it says what is wrong with the input or the system; an
    `InternalError` otherwise."""
    if isinstance(problem, TwillError | OSError):
        return problem
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    op, text = _operation(frames), _text(frames)
    message = f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
    details = "".join(traceback.format_exception(problem))
    if op is None:
        return InternalError(f"internal error, {message}", details=details)
    lines = text.splitlines() if text else []
    shown = lines[op.location.line - 1] if op.location.line <= len(lines) else None
    return InternalError(f"internal error at {op.name}, {message}", op.location, text=shown, details=details)


def _operation(frames: Iterable[FrameType]) -> Op | None:
    found: Op | None = None
    for frame in frames:
        own = [value for value in frame.f_locals.values() if isinstance(value, Op)]
        loops = [value.op for value in frame.f_locals.values() if isinstance(value, Loop)]
        found = next(iter([*own, *loops]), found)
    return found


def _text(frames: Iterable[FrameType]) -> str | None:
    """Of the module that is worked on."""
    found: str | None = None
    for frame in frames:
        for value in frame.f_locals.values():
            for held in (value, getattr(value, "module", None)):
                found = held.text if isinstance(held, Module) else found
    return found
