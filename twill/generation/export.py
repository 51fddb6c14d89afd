"""Warp programs for other compilers: Gluon kernels and TileLang schedules.

Takes a `Generated`; gives the file, by its name. Raises TwillError, with the line of the operation and a way
out, for what the other compiler's language can not express.
"""

from importlib.util import find_spec
from re import findall
from typing import Literal, TypeAlias

from twill.diagnostics import TwillError
from twill.generation.generated import Generated
from twill.ir.names import identifier
from twill.ir.program import Program

Language: TypeAlias = Literal["gluon", "tilelang"]


def exported(made: Generated, to: Language) -> tuple[str, str]:
    """The name and the text of the file. A Gluon kernel is compiled where Triton is installed."""
    name = identifier(made.program.function.name)
    if reason := _not_expressed(made.program, to):
        raise TwillError(f"{reason} can not be exported", made.program.function.location)
    match to:
        case "gluon":
            from twill.targets.gluon.kernel import source

            text = source(made.program)
            machine = made.loops[0].machine
            if find_spec("triton") is not None:
                _compiled(text, made.program, machine.arch, made.program.shared.limit)
            return f"{name}_gluon.py", text
        case "tilelang":
            from twill.targets.tilelang import schedule

            return f"{name}_tilelang.py", schedule(made.program, made.loops)


def _not_expressed(program: Program, to: Language) -> str:
    """What only the generated CUDA has; empty for a program without it."""
    if program.pairs:
        return "MMAs of pairs of thread blocks"
    if program.cluster > 1:
        return "loads that the thread blocks of a cluster share"
    if program.claiming is not None:
        return "tiles that thread blocks claim while they run"
    if any(group.independent for group in program.groups):
        return "warpgroups that store tiles by themselves"
    if program.parts:
        return "elements computed by polynomials"
    alternating = to == "gluon" and any(tile.counter for tile in program.tensor_memory)
    return "accumulators that alternate" if alternating else ""


def _compiled(text: str, program: Program, arch: str, limit: int) -> None:
    """Triton adds shared memory for its own exchanges between threads."""
    from twill.extract.frontend.gluon import compiled

    made = compiled(text, program.function, arch)
    if program.tensor_memory and _loads_and_arrivals(text) != _loads_and_arrivals(made.ttgir):
        raise TwillError(
            "Triton moves a load from tensor memory behind the arrival that says it is done",
            program.function.location,
            help="use `twill codegen`, which writes CUDA C++ for this program",
        )
    used = made.shared_bytes
    if used > limit:
        raise TwillError(
            f"{program.function.name} needs {used} bytes of shared memory as Triton compiles it;"
            f" a thread block has {limit}",
            help=_fewer_slots(program, used - limit),
        )


def _loads_and_arrivals(text: str) -> list[bool]:
    """The loads from tensor memory (True) and the arrivals of threads (False) of a Gluon kernel, or of what
    Triton makes of it, in order."""
    loads = r"tensor_(?:tile|buffer)\([^\n]*\)\.load\(|ttng\.tmem_load"
    arrivals = r"mbarrier\.arrive\(|ttng\.arrive_barrier"
    return ["load" in found for found in findall(f"{loads}|{arrivals}", text)]


def _fewer_slots(program: Program, excess: int) -> str:
    """The way out: the channel whose slots are largest gives some up."""
    channel = max(program.channels, key=lambda one: (one.depth > 1, one.stride, one.id))
    left = max(1, channel.depth - -(-excess // channel.stride))
    return f"use fewer slots: --slots {channel.id}={left}"
