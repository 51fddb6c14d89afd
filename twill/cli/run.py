"""`twill run`: a program, unchanged, with Twill's kernels in place of Triton's."""

import signal
import subprocess
import sys

import click

from twill.diagnostics import TwillError

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
"""Signals to this process alone that the command is to receive."""


@click.command(
    short_help="Run a program with Twill's kernels in place of Triton's.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--background", is_flag=True, help="Run Triton's kernel until Twill's is built.")
@click.option("--cached", is_flag=True, help="Build nothing: use what was built before.")
@click.option(
    "--verify", is_flag=True, help="Use no kernel whose first launch was not compared with Triton's."
)
@click.option("--no-measure", is_flag=True, help="Use Twill's kernel without timing it beside Triton's.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Launches wait at most so long in all for builds; Triton's kernels run meanwhile.  [default: 60]",
)
@click.option(
    "--report/--no-report", default=True, show_default=True, help="List at the end which kernel ran, and why."
)
@click.pass_context
def run(
    ctx: click.Context,
    command: tuple[str, ...],
    background: bool,
    cached: bool,
    verify: bool,
    no_measure: bool,
    patience: float | None,
    report: bool,
) -> None:
    """Run COMMAND, and the Python programs that it starts, with every launch of a @triton.jit kernel going to
    Twill's kernel where there is one. See docs/triton.md.

    \b
    twill run train.py
    twill run -- python train.py --epochs 3
    twill run --background -- torchrun --nproc-per-node 8 train.py
    """
    from twill.triton.startup import REPORT, SWITCH, environment

    flags = {"background": background, "cached": cached, "verify": verify, "trust": no_measure}
    words = [word for word, given in flags.items() if given] or ["1"]
    words += [] if patience is None else [f"patience={patience:g}"]
    variables = {SWITCH: ",".join(words), **({REPORT: "1"} if report else {})}
    ctx.exit(child(command, environment(variables)))


def child(command: tuple[str, ...], variables: dict[str, str]) -> int:
    """Runs a command to its end; gives its exit status, as a shell would. Ctrl-C reaches the command from the
    terminal and a request to end is passed on, so that it ends as it would without Twill. Raises TwillError
    where it cannot be started. A Python file runs under this Python."""
    python = (sys.executable,) if command[0].endswith(".py") else ()
    try:
        process = subprocess.Popen((*python, *command), env=variables)
    except OSError as error:
        raise TwillError(f"cannot run {command[0]}: {error.strerror}") from error
    before = {one: signal.signal(one, lambda number, _: process.send_signal(number)) for one in PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = process.wait()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    return status if status >= 0 else 128 - status
