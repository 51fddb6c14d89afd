"""Options that several commands share, and what becomes of them: an `Inputs` value."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twill.cli import worker
from twill.files import load
from twill.inputs import Case, Inputs, cases
from twill.whatif import read_pins

if TYPE_CHECKING:
    from twill.generate import GenerateOptions

Command = TypeVar("Command", bound=Callable[..., Any])


def inputs(spec: str, options: Mapping[str, Any]) -> Inputs:
    """The inputs among a command's options; what else there is, is the command's own."""
    names = {field.name for field in fields(Inputs)} - {"pins"}
    path: str | None = options.get("pins")
    pins = read_pins(load(path), path) if path else None
    return Inputs(spec, pins=pins, **{name: value for name, value in options.items() if name in names})


def prepared(asked: Inputs) -> tuple[Case, ...]:
    """The loops that are asked about; a solver that normalizes their times can be interrupted."""
    return cases(asked) if asked.resolution is None else worker.alone(lambda: cases(asked))


class Pair(click.ParamType[tuple[str, object]]):
    """`NAME=VALUE`; the value is made by `convert_value`."""

    def __init__(self, name: str, convert_value: Callable[[str], object] = str) -> None:
        self.name = name
        self.convert_value = convert_value

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, object]:
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        try:
            return name, self.convert_value(text)
        except ValueError:
            self.fail(f"{text!r} is not a {'whole ' if self.convert_value is int else ''}number", param, ctx)


class Seconds(click.FloatRange):
    """A tenth of a second or more; `nan` is none."""

    def __init__(self) -> None:
        super().__init__(min=0.1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is no time", param, ctx) if isnan(seconds) else seconds


class Units(click.ParamType[int | None]):
    """`exact`, or a number of units of time."""

    name = "exact|U"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "exact":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither 'exact' nor a positive whole number", param, ctx)
        return int(value)


class Folder(click.Path):
    """A folder to write into, which is made if need be; one that can not be is refused before anything is solved for it."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        folder = Path(str(super().convert(value, param, ctx)))
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            self.fail(f"{folder} can not be made: {there} is a file", param, ctx)
        return folder if os.access(there, os.W_OK | os.X_OK) else self.fail(f"{there} can not be written to", param, ctx)


def machine_options(command: Command) -> Command:
    """The machine."""
    for add in reversed(
        (
            click.option("--arch", help="Architecture, sm90 or sm100; stands for its default machine."),
            click.option("--machine", metavar="NAME|FILE", help="Machine to schedule for: see `twill machines list`, or a TOML file."),
        )
    ):
        command = add(command)
    return command


def input_options(command: Command) -> Command:
    """What is read, and how."""
    for add in reversed(
        (
            click.option(
                "--set", "settings", multiple=True, type=Pair("NAME=VALUE"), help="Argument or constexpr of a Python kernel; repeatable."
            ),
            click.option("--loop", "loops", multiple=True, metavar="NAME", help="Loop to take, such as for.0; repeatable."),
            click.option("--no-rule", "switched_off", multiple=True, metavar="RULE", help="Simplification rule to switch off; repeatable."),
        )
    ):
        command = add(command)
    return machine_options(command)


def program_options(command: Command) -> Command:
    """How a kernel becomes warp programs."""
    for add in reversed(
        (
            click.option("--persistent", is_flag=True, help="As many thread blocks as fit walk over the programs of the grid."),
            click.option("--depth", "depths", multiple=True, type=Pair("CHANNEL=SLOTS", int), help="Slots of a channel; repeatable."),
            click.option(
                "--schedule", "schedules", multiple=True, metavar="FILE", help="Schedule of a loop, instead of a search; repeatable."
            ),
            click.option(
                "--time-limit", type=Seconds(), default=60.0, show_default=True, metavar="SECONDS", help="For scheduling each loop."
            ),
        )
    ):
        command = add(command)
    return command


def wishes(options: Mapping[str, Any]) -> "GenerateOptions":
    """What `program_options` ask for."""
    from twill.generate import GenerateOptions
    from twill.warp.lower import Options

    lowering = Options(depths=dict(options["depths"]))
    return GenerateOptions(time_limit=options["time_limit"], schedules=options["schedules"], lowering=lowering)


def question_options(command: Command) -> Command:
    """What if."""
    positive = click.IntRange(min=1)
    whole = click.IntRange(min=0)
    for add in reversed(
        (
            click.option("--resolution", type=Units(), help="Exact cycles (default), or units of time of which the durations sum to U."),
            click.option("--groups", type=positive, metavar="N", help="At most N warp groups, the loads' included."),
            click.option("--registers", type=positive, metavar="N", help="At most N registers per thread in any group."),
            click.option("--no-cross-group", "hand_over", flag_value=False, default=True, help="Let nothing computed pass between groups."),
            click.option("--smem", "shared", type=whole, metavar="BYTES", help="Shared memory of a thread block."),
            click.option("--tmem", "tensor", type=whole, metavar="COLUMNS", help="Tensor memory of a thread block."),
            click.option(
                "--latency",
                "latencies",
                multiple=True,
                type=Pair("OP=CYCLES", int),
                help="Latency of operations by id or name, * and ? allowed; repeatable.",
            ),
            click.option(
                "--contention/--no-contention",
                default=True,
                help="Let operations cost what they do beside a busy tensor core (the default), or beside an idle one.",
            ),
            click.option("--pin", "pins", metavar="FILE", help="JSON file that fixes starts or the partition into groups."),
        )
    ):
        command = add(command)
    return command
