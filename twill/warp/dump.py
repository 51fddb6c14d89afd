"""Drafts between the passes of lowering as text, for `twill codegen --dump`.

Takes a `Draft`; gives one line per event or statement of each loop in each group, and the listing of the
program once there is one.
"""

from collections.abc import Iterable

from twill.ir.statements import SLICES
from twill.warp.events import Event
from twill.warp.kernel import Group
from twill.warp.listing import lines, text
from twill.warp.pipelined_loops import LoopDraft
from twill.warp.plan import Draft


def dumped(draft: Draft) -> str:
    """The whole draft."""
    if draft.program is not None:
        return text(draft.program)
    found = [line for groups in draft.loops for one in groups for line in ["", *_loop(one)]]
    return "\n".join([*found[1:], ""])


def _loop(draft: LoopDraft) -> Iterable[str]:
    group, made = draft.group, draft.statements
    yield f"{group.scheduled.loop.path}, group {group.id}: interval begins at {group.shift}"
    if made is not None:
        parts = {
            "filled": made.filled,
            "prologue": made.prologue,
            "steady": made.steady,
            "epilogue": made.epilogue,
            "short": made.short,
        }
    elif draft.parts is not None:
        steps = {
            "prologue": draft.parts.prologue,
            "steady": draft.parts.steady,
            "epilogue": draft.parts.epilogue,
        }
        parts = {name: tuple(step.statement for step in found) for name, found in steps.items()}
    else:
        yield from (f"  {_event(group, event)}" for event in draft.events)
        return
    for name, statements in parts.items():
        yield from (
            [f"  {name}", *(line for statement in statements for line in lines(statement, 2))]
            if statements
            else []
        )


def _event(group: Group, event: Event) -> str:
    stage, time = group.when(event.time)
    when = f"{round(time * group.scale):>5} stage {stage}:"
    if event.task is None:
        return f"{when} release {event.channel.id if event.channel else ''}"
    part = f" k {event.span[0]}..{event.span[1]}" if event.span else ""
    part += f" slices {event.slices[0]}..{event.slices[1]}" if event.slices != (0, SLICES) else ""
    return f"{when} {event.task.id}{part}{f' into {event.channel.id}' if event.channel else ''}"
