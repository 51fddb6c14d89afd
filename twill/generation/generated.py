"""A generated kernel, and the options of its generation (`twill.generation.generate`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.inputs import Case, Inputs
from twill.ir.checked import Checked
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Progress
from twill.warp.plan import Options as Lowering
from twill.warp.tasks import Scheduled

ProgressCallback = Callable[[str, Progress], None]
"""Called with each event of a search and the name of its loop."""

SEVERAL = "several groups compute"
APART = "a group of its own loads"
"""How a kernel differs that has them where another one has one group in their place."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """Options of `twill.generation.generate.generate`."""

    time_limit: float = 60.0
    """Seconds for scheduling each loop. Other forms of the kernel, which may be faster, have as much again
    together."""
    schedules: tuple[str, ...] = ()
    """Schedule files (`twill.schedule/1`) to use instead of a search."""
    keep_schedules: bool = False
    """Given schedules stay also where another form of the kernel is predicted to be faster, ptxas spills with
    them in every way that keeps them, or no kernel can be generated; otherwise such schedules are replaced,
    with a note."""
    answers: tuple[Result, ...] = ()
    """What searches for loops with these problems find: schedules that were given (`known.given.ways`)."""
    refused: str = ""
    """Why no kernel has been made with these; empty if that was not tried."""
    lowering: Lowering = field(default_factory=Lowering)
    check: bool = True
    """Check the kernel once before it is handed over (`twill.simulate.check`)."""
    execute: bool = False
    """Where it is checked, also execute the PTX that nvcc makes of it (`twill.emulate.check`)."""
    max_in_flight: int | None = None
    """The most iterations in flight of the schedules that are searched; None as in `twill.ir.search`."""
    proofs: bool = True
    """Whether searches go on below an answer only to prove it the best (`twill.ir.search.Options.proofs`)."""
    whole_tiles: bool = False
    """Whole tiles are known to be as fast as sub-tiles, from the search for schedules that are replaced."""
    dump: bool = False
    """Keep the draft after each pass of lowering."""


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """The warp programs of a kernel, with the schedules that they come from."""

    inputs: Inputs
    """What it was made of, with everything decided that the user left open."""
    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    """The schedules with their evidence, by the paths of the loops."""
    cuda: str
    """The source, which `twill simulate` makes too: it refuses what `twill codegen` refuses."""
    dumps: Mapping[str, str] = field(default_factory=dict[str, str])
    """By file name: the draft after each pass of lowering, where `GenerateOptions.dump` says so."""
    cases: tuple[Case, ...] = ()
    """The loops with their costs, in the order of `loops`."""
    checked: Checked | None = None
    """What was run to check it; None where nothing was."""
    form: str = ""
    """What was done to the kernel because it is predicted to be faster so, such as `made persistent`."""
    others: tuple["Generated", ...] = ()
    """Its other forms, which are taken where this one is wrong or ptxas spills; best first."""
    searched: tuple[Result, ...] = ()
    """The results of all searches that were made for it, which need not be made again."""
    loading: "Generated | None" = None
    """Its schedule, lowered so that the group that computes loads too, where that is predicted to be no
    faster; without its CUDA."""
    loading_apart: "Generated | None" = None
    """Its schedule, lowered with a group that loads, where that is predicted to be slower; without its
    CUDA."""
    several: "Generated | None" = None
    """That with several groups that compute, in whose place it has one in each thread block; without its
    CUDA."""
    replaced: str = ""
    """Which of the given schedules it does not have, and why; empty where it has all."""
    intervals: Mapping[str, float] | None = None
    """Simulated machine cycles of a thread block for an iteration of each loop, by its path, if known."""

    @property
    def subtile(self) -> int:
        """Sub-tiles that its rows are divided into."""
        return self.inputs.subtile or 1


def noted(made: Generated, *notes: str) -> Generated:
    """The kernel with further notes, in its program and its CUDA."""
    return _printed(made, replace(made.program, notes=(*made.program.notes, *notes)))


def warned(made: Generated, *warnings: str) -> Generated:
    """The kernel with further warnings, in its program and its CUDA."""
    return _printed(made, replace(made.program, warnings=(*made.program.warnings, *warnings)))


def _printed(made: Generated, program: Program) -> Generated:
    return replace(made, program=program, cuda=source(program, made.loops))


def source(program: Program, loops: Sequence[Scheduled]) -> str:
    """The CUDA C++ of a program. Raises TwillError for what cannot be generated."""
    from twill.targets import target

    return target(loops[0].machine.arch).source(program)


def pace_of_sm(made: Generated) -> float:
    """Simulated machine cycles of an SM, which several thread blocks may share, for an iteration of each
    loop, together."""
    from twill.simulate.predict import intervals, shared_sm

    found = made.intervals or intervals(made.program, made.loops)
    return shared_sm(found, made.program.resident_blocks, made.loops)
