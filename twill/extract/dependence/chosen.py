"""Which loops of a module are to be scheduled."""

from twill.diagnostics import TwillError, together
from twill.extract.dependence.loops import NOTHING_TO_SCHEDULE, loops
from twill.ir.loop import Loop, Module


def chosen(module: Module, names: tuple[str, ...]) -> tuple[Loop, ...]:
    """The loops with these names, or all loops that can be scheduled. Raises TwillError if a named loop
    cannot be, or none can."""
    found = loops(module)
    if not names:
        fit = tuple(loop for loop in found if loop.schedulable)
        if not fit:
            raise _nothing(module, found)
        return fit
    return tuple(_named(module, found, name) for name in names)


def _nothing(module: Module, found: tuple[Loop, ...]) -> TwillError:
    if not found:
        return TwillError(f"{module.file} has no loop", help=NOTHING_TO_SCHEDULE)
    refused = [loop for loop in found if loop.tensor_ops and loop.innermost] or [found[-1]]
    return together(_refused(module, loop) for loop in refused) or _refused(module, refused[0])


def _refused(module: Module, loop: Loop) -> TwillError:
    refusal = loop.refusal
    if refusal is None:
        raise ValueError(f"{loop.path} can be scheduled")
    line = module.text.splitlines()[refusal.location.line - 1]
    return TwillError(
        f"cannot schedule {loop.path}: {refusal.reason}", refusal.location, text=line, help=refusal.help
    )


def _named(module: Module, found: tuple[Loop, ...], name: str) -> Loop:
    matching = [loop for loop in found if loop.path == name or loop.path.endswith(f"/{name}")]
    if len(matching) != 1:
        names = ", ".join(loop.path for loop in found) or "none"
        raise TwillError(
            f"{len(matching) or 'no'} loops of {module.file} are called {name}", help=f"its loops: {names}"
        )
    if not matching[0].schedulable:
        raise _refused(module, matching[0])
    return matching[0]
