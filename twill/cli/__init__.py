"""The command line. Modules of this package parse options, call the library and print; they hold no logic.

Each command is imported when it runs, so that `twill --help` is fast. Exit status: 0 done, 2 bad input, 3
proven infeasible, 4 stopped at a limit with the best answer and its bound, 70 a defect of Twill, 130
interrupted.
"""

import gc
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import TextIO

import click

from twill.diagnostics import TRACEBACK, InternalError

COMMANDS = {
    "schedule": "Find the optimal schedule of a loop.",
    "explain": "Show what bounds a loop, and what would move the bound.",
    "diff": "Compare two schedules.",
    "sweep": "Schedule and rank a grid of configurations.",
    "extract": "Compile a Python kernel to TTGIR before scheduling.",
    "graph": "Draw the dependence graph of a loop.",
    "codegen": "Generate CUDA C++ for Hopper or Blackwell.",
    "export": "Write a kernel or schedule for another compiler.",
    "simulate": "Run warp programs on the CPU: values, hazards, cycles.",
    "emulate": "Execute PTX on the CPU: values, hazards, races, deadlocks.",
    "bench": "Measure a generated kernel on a GPU.",
    "capture": "Record the Triton kernels that a program launches.",
    "run": "Run a program with Twill's kernels in place of Triton's.",
    "check": "Verify a schedule independently, with no solver.",
    "machines": "List the machine models, or show one.",
    "doctor": "Show what is installed, and what it enables.",
    "cache": "List or clear the cache of built kernels.",
}
"""The commands in the order of `twill --help`. Command NAME is the function NAME of the module
twill.cli.NAME."""

GUESTS = ("bench", "capture", "run")
"""Commands that run a program of the user's, or beside PyTorch: how many threads these have is theirs."""
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""How many threads NumPy multiplies matrices with. One in all other commands: tiles are small, and threads
that wait for each other on busy processors take hundreds of times as long."""

INTERRUPTED = 130
INTERNAL = 70
"""EX_SOFTWARE of sysexits.h."""


class _Lazy(click.Group):
    """A group that imports a command only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in GUESTS:
            for variable in THREADS:
                os.environ.setdefault(variable, "1")
        return getattr(import_module(f"twill.cli.{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            close = get_close_matches(args[0], COMMANDS, 2)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _completion(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Print the completion script of a shell."""
    if value is None or ctx.resilient_parsing:
        return
    from click.shell_completion import get_completion_class

    made = get_completion_class(value)
    if made is None:
        raise click.BadParameter(f"no completion for {value!r}", ctx, param)
    click.echo(made(ctx.command, {}, "twill", "_TWILL_COMPLETE").source())
    ctx.exit()


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="twill-scheduler", prog_name="twill")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_completion,
    help='Print a completion script, such as for eval "$(twill --completion bash)".',
)
def twill() -> None:
    """Provably optimal software pipelining and warp specialization for Tensor Core loops.

    \b
    twill schedule kernel.ttgir --arch sm100
    twill schedule kernels.py:fa_fwd --arch sm90 --set BLOCK_N=128 --out out/
    twill schedule loop.graph.json --machine h200 --json

    FILE.py:FUNCTION executes FILE.py, as importing it would: name only files that you trust.
    """


COLLECTIONS = (200_000, 50, 100)
"""Thresholds of Python's garbage collector: what is read of a large loop lives to the end, and to look
through all of it again and again takes a third of the time."""


def main() -> None:
    """The `twill` command."""
    gc.set_threshold(*COLLECTIONS)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str], errors: TextIO | None = None) -> int:
    """Run one command and return its exit status. Error messages go to `errors`, by default standard
    error."""
    stream: TextIO = errors or sys.stderr
    try:
        with _notes(stream):
            status = twill.main(arguments, "twill", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as problem:
        problem.show(stream)
        return problem.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=stream)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # so that the interpreter does not flush it again at exit
        return 1
    except Exception as problem:  # what no input should cause is one line, too
        from twill.cli.guard import guarded

        return _failed(guarded(problem), stream)


def _failed(problem: Exception, errors: TextIO) -> int:
    """Show an error; the exit status for it."""
    if isinstance(problem, InternalError) and os.environ.get(TRACEBACK):
        print(problem.details, file=errors)
    if isinstance(problem, OSError):
        print(f"error: {problem.filename or 'file'}: {problem.strerror or problem}", file=errors)
    else:
        print(problem, file=errors)
    return INTERNAL if isinstance(problem, InternalError) else 2


@contextmanager
def _notes(errors: TextIO | None) -> Generator[None]:
    """Shows what the package logs, such as where a kernel was taken from."""
    logger, handler = logging.getLogger("twill"), logging.StreamHandler(errors)
    level = logger.level
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
