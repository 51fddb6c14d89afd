"""Options that several commands share, and their conversion to `Inputs` and `GenerateOptions`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from twill.cli import worker
from twill.files import load
from twill.inputs import Case, Inputs, cases
from twill.whatif import read_pins

if TYPE_CHECKING:
    from twill.generation.generated import GenerateOptions

Option: TypeAlias = Any
"""The value of a command-line option, converted by its click type."""
CommandOptions: TypeAlias = Mapping[str, Option]
"""Options of a command, by parameter name."""
Function = TypeVar("Function", bound=Callable[..., Any])


def inputs(spec: str, options: CommandOptions) -> Inputs:
    """The `Inputs` fields among a command's options; the command itself handles the other options."""
    names = {field.name for field in fields(Inputs)} - {"pins"}
    path: str | None = options.get("pins")
    pins = read_pins(load(path), path) if path else None
    return Inputs(spec, pins=pins, **{name: value for name, value in options.items() if name in names})


COUNTED = "in seconds of an idle core, counted by work done: a busy machine takes longer and finds the same"
"""What the seconds of a time limit are (`twill.engine.clock`), for its help text."""

LARGE = 1_000_000
"""Bytes above which reading a file is announced."""


def prepared(requested: Inputs) -> tuple[Case, ...]:
    """The loops of the inputs. Normalization calls a solver, so it runs in a process that Ctrl-C can kill. A
    large file takes seconds, and is announced."""
    if requested.resolution is not None:
        return worker.alone(lambda: cases(requested))
    path = Path(requested.spec)
    if not path.is_file() or path.stat().st_size <= LARGE:
        return cases(requested)
    from twill.cli.progress import ticking

    with ticking(f"reading {path} ({path.stat().st_size / 1e6:.0f} MB)"):
        return cases(requested)


class Pair(click.ParamType[tuple[str, object]]):
    """`NAME=VALUE`; `convert_value` converts the value."""

    def __init__(self, name: str, convert_value: Callable[[str], object] = str) -> None:
        self.name = name
        self.convert_value = convert_value

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        try:
            return name, self.convert_value(text)
        except ValueError:
            self.fail(f"{text!r} is not a {'whole ' if self.convert_value is int else ''}number", param, ctx)


class Seconds(click.FloatRange):
    """At least a tenth of a second; `nan` is rejected."""

    def __init__(self) -> None:
        super().__init__(min=0.1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is not a number of seconds", param, ctx) if isnan(seconds) else seconds


class Units(click.ParamType[int | None]):
    """`exact`, or a number of time units."""

    name = "exact|U"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "exact":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither 'exact' nor a positive whole number", param, ctx)
        return int(value)


class SubTiles(click.ParamType[int | None]):
    """`auto`, or a number of sub-tiles."""

    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "auto":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither 'auto' nor a positive whole number", param, ctx)
        return int(value)


LONGEST = 255
"""Bytes of a file's name, on all file systems in use."""


class Folder(click.Path):
    """An output folder, created if needed; one that cannot be created or written to is an error before any
    search starts."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        folder = Path(str(super().convert(value, param, ctx)))
        if any(len(os.fsencode(part)) > LONGEST or not part.isprintable() for part in folder.parts):
            self.fail(
                f"{str(folder)[:60]!r} is no name for a folder: too long, or with control characters",
                param,
                ctx,
            )
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            self.fail(f"cannot create {folder}: {there} is a file", param, ctx)
        return (
            folder
            if os.access(there, os.W_OK | os.X_OK)
            else self.fail(f"cannot write to {there}", param, ctx)
        )


class _Grouped(click.Option):
    """An option that `--help` lists under the title of its group."""

    def __init__(self, *args: Any, title: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.title = title


class Command(click.Command):
    """A command whose `--help` lists its own options first, then each group of shared options under its
    title."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = dict[str, list[tuple[str, str]]]()
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(param.title if isinstance(param, _Grouped) else "Options", []).append(
                    record
                )
        for title in sorted(sections, key=lambda title: title != "Options"):
            with formatter.section(title):
                formatter.write_dl(sections[title])


def _group(title: str, *options: tuple[tuple[str, ...], CommandOptions]) -> Callable[[Function], Function]:
    """A decorator that adds the options to a command, under one title in `--help`."""

    def decorate(function: Function) -> Function:
        for names, settings in reversed(options):
            function = click.option(*names, cls=_Grouped, title=title, **settings)(function)
        return function

    return decorate


def _option(*names: str, **settings: Any) -> tuple[tuple[str, ...], CommandOptions]:
    return names, settings


_POSITIVE, _WHOLE = click.IntRange(min=1), click.IntRange(min=0)

input_options = _group(
    "Input options",
    _option(
        "--arch",
        help="Architecture, sm90 or sm100; selects its default machine.  [default: TTGIR's target]",
    ),
    _option(
        "--machine",
        metavar="NAME|FILE",
        help="Machine to schedule for: a name from `twill machines list`, or a TOML file.",
    ),
    _option(
        "--set",
        "settings",
        multiple=True,
        type=Pair("NAME=VALUE"),
        help="Argument or constexpr of a Python kernel; repeatable.",
    ),
    _option(
        "--tile",
        type=Pair("NAME=SIZE", int),
        help="A size that Triton does not compile: a constexpr of a Python kernel, a multiple of 16 (sm90).",
    ),
    _option(
        "--loop",
        "loops",
        multiple=True,
        metavar="NAME",
        help="Loop to schedule, such as for.0; repeatable.  [default: all]",
    ),
    _option(
        "--no-rule",
        "switched_off",
        multiple=True,
        metavar="RULE",
        help="Simplification rule to switch off; repeatable.",
    ),
)
"""Options that choose the kernel, its loops and the machine."""

program_options = _group(
    "Code generation options",
    _option(
        "--persistent/--no-persistent",
        default=None,
        help="Generate a persistent kernel, in which each thread block loops over the grid, or one with a"
        " thread block for each program; the default is what is predicted to be faster.",
    ),
    _option(
        "--pairs",
        is_flag=True,
        help="Blackwell: MMAs of two neighbouring thread blocks, each of which loads half of B.",
    ),
    _option(
        "--cluster",
        type=click.IntRange(1, 2),
        default=1,
        show_default=True,
        metavar="BLOCKS",
        help="Hopper: clusters of 2 neighbouring thread blocks. Each block loads half of every tile that both"
        " need and multicasts it to both.",
    ),
    _option(
        "--multistage/--no-multistage",
        default=None,
        help="Hopper: no group of warps of its own loads; the one group that computes does, ahead of what it"
        " computes.  [default: what is predicted to be faster]",
    ),
    _option(
        "--independent-warpgroups/--no-independent-warpgroups",
        "independent",
        default=None,
        help="Hopper, persistent kernels: the warpgroups of a group stage tiles by themselves, alternately in"
        " the same shared memory, and a warp of its own stores them.  [default: what is predicted to be"
        " faster]",
    ),
    _option(
        "--dynamic/--no-dynamic",
        "dynamic",
        default=None,
        help="With --persistent: thread blocks claim tiles as they run (Blackwell: cluster launch control)."
        "  [default: where loops of different tiles are of unequal length]",
    ),
    _option(
        "--slots",
        "slots",
        multiple=True,
        type=Pair("CHANNEL=SLOTS", int),
        help="Number of slots of a channel; repeatable.",
    ),
    _option(
        "--blocks",
        type=_POSITIVE,
        metavar="N",
        help="Thread blocks of a launch: with no more than SMs, one block gets all of an SM.",
    ),
    _option(
        "--tiles-in-flight",
        "tiles",
        type=_POSITIVE,
        metavar="N",
        help="Iterations of a loop over tiles in flight.  [default: predicted to be fastest]",
    ),
    _option("--depth", "depths", multiple=True, type=Pair("CHANNEL=SLOTS", int), hidden=True),
    _option(
        "--schedule",
        "schedules",
        multiple=True,
        metavar="FILE",
        help="Use this schedule of a loop instead of searching; repeatable. Where another form of the kernel"
        " is predicted to be faster, its schedules are searched for, and a note says so.",
    ),
    _option(
        "--keep-schedules",
        is_flag=True,
        help="Keep given schedules also where another form of the kernel is predicted to be faster, ptxas"
        " spills, or no kernel can be generated.",
    ),
    _option(
        "--time-limit",
        type=Seconds(),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help=f"Time limit for scheduling each loop, {COUNTED}.",
    ),
)
"""Options of the lowering from a schedule to warp programs."""

what_if_options = _group(
    "What-if options",
    _option(
        "--subtile",
        type=SubTiles(),
        default="auto",
        show_default=True,
        help="Divide the rows of the tiles into N independent sub-tiles; auto: into 2, where the loops then"
        " take fewer cycles.",
    ),
    _option(
        "--resolution",
        type=Units(),
        help="Exact cycles, or round costs so that the distinct durations sum to U time units."
        "  [default: exact]",
    ),
    _option(
        "--groups",
        type=_POSITIVE,
        metavar="N",
        help="At most N warp groups, including the load group.  [default: the machine's limit]",
    ),
    _option(
        "--registers",
        type=_POSITIVE,
        metavar="N",
        help="At most N registers per thread in a schedule.  [default: the machine's limit]",
    ),
    _option(
        "--no-cross-group",
        "cross_group",
        flag_value=False,
        default=True,
        help="Forbid cross-group register values.",
    ),
    _option(
        "--smem",
        "shared",
        type=_WHOLE,
        metavar="BYTES",
        help="Shared memory per thread block.  [default: the machine's]",
    ),
    _option(
        "--tmem",
        "tensor",
        type=_WHOLE,
        metavar="COLUMNS",
        help="Tensor memory per thread block.  [default: the machine's]",
    ),
    _option(
        "--latency",
        "latencies",
        multiple=True,
        type=Pair("OP=CYCLES", int),
        help="Latency of operations in cycles, by id or name; * and ? match as in a shell; repeatable.",
    ),
    _option(
        "--ahead",
        "ahead",
        multiple=True,
        type=Pair("LOAD=ITERATIONS", int),
        help="How many iterations loads may run ahead, by id or name, where shared memory has room;"
        " repeatable.  [default: 1, or 0 for the last loads of the largest tiles where it has none]",
    ),
    _option(
        "--polynomial-exp2",
        "polynomial_exp2",
        is_flag=True,
        help="A polynomial may compute some of the exponentials; the search finds how many.",
    ),
    _option(
        "--rescale-threshold",
        type=click.FloatRange(min=0, max=8),
        metavar="X",
        help="Running maxima stay until they grow by more than X (at most 8), so that accumulators are"
        " seldom rescaled; 0 changes no value.  [default: they follow every growth]",
    ),
    _option(
        "--divide-waits/--no-divide-waits",
        "divide_waits",
        default=None,
        help="Let groups wait for accumulators in the middle of an elementwise operation; the default where a"
        " kernel is predicted to be faster so.",
    ),
    _option(
        "--contention/--no-contention",
        default=True,
        show_default=True,
        help="Cost operations under tensor core contention, or with an idle tensor core.",
    ),
    _option(
        "--pin",
        "pins",
        metavar="FILE",
        help="JSON file that fixes start times or the partition into warp groups.",
    ),
)
"""Options that change the problem: limits, costs, fixed starts."""


def generate_options(options: CommandOptions) -> "GenerateOptions":
    """The values of `program_options`."""
    from twill.generation.generated import GenerateOptions
    from twill.warp.plan import Options

    depths = dict(options["depths"]) | dict(options["slots"])
    lowering = Options(
        depths=depths,
        blocks=options["blocks"],
        tiles=options["tiles"],
        pairs=options["pairs"],
        cluster=options["cluster"],
        dynamic=options["dynamic"],
        multistage=options["multistage"],
        independent=options["independent"],
    )
    return GenerateOptions(
        time_limit=options["time_limit"],
        schedules=options["schedules"],
        keep_schedules=options["keep_schedules"],
        lowering=lowering,
    )
