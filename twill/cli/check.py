"""`twill check`: verify a schedule file without a solver."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from twill.cli import worker
from twill.cli.options import (
    COUNTED,
    Command,
    Option,
    Seconds,
    input_options,
    inputs,
    prepared,
    what_if_options,
)

if TYPE_CHECKING:
    from twill.files import ScheduleDocument
    from twill.generation.known.as_made import Made
    from twill.ir.problem import Problem
    from twill.smt.prove import Confirmation


@click.command(cls=Command, short_help="Verify a schedule independently, with no solver.")
@click.argument("schedule")
@click.argument("spec")
@input_options
@what_if_options
@click.option(
    "--prove",
    is_flag=True,
    help=(
        "Refute the interval below the answer again, with engines other than the recorded one: a projection,"
        " and the whole problem for more and more iterations in flight."
    ),
)
@click.option(
    "--time-limit",
    type=Seconds(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help=f"For --prove, {COUNTED}.",
)
@click.pass_context
def check(
    ctx: click.Context, schedule: str, spec: str, prove: bool, time_limit: float, **options: Option
) -> None:
    """Verify SCHEDULE, a schedule.json, against SPEC, the kernel or graph that it was made from.

    The command builds the problem from SPEC again, for the machine named in the schedule unless --machine or
    --arch names another. It checks every rule on the numbers, computes the bounds again, and checks that the
    status follows from the evidence. Repeat the what-if options that the schedule was made with. The form of
    a generated kernel is found by itself: persistent, sub-tiles, divided waits, hand-offs that are counted,
    limits of one of several thread blocks on an SM. Notes, reasons and times are the writer's: they are not
    checked, and named as such. A schedule made with --modulo-only is checked against dependences and units
    alone. One of several loops of a generated kernel may keep operations in the groups of the others: these
    ties are checked and named, and the status is of schedules that keep them.

    \b
    twill check out/schedule.json kernel.ttgir

    Exit status: 0 all rules hold, 1 a rule is broken or --prove found a smaller interval, 2 bad input, 4
    --prove reached its time limit.
    """
    from twill.files import load, read_schedule
    from twill.generation.known.as_made import as_made
    from twill.inputs import is_graph
    from twill.verify import check_document
    from twill.verify.document import tied

    document = read_schedule(load(schedule), schedule)
    problem = document.result.problem
    if not is_graph(spec):
        options["machine"] = options["machine"] or (None if options["arch"] else problem.machine)
        options["loops"] = options["loops"] or ((problem.name,) if problem.source else ())
    made = as_made(inputs(spec, options), document.result, prepared)
    case = made.case
    violations = check_document(document, case.problem)
    for violation in violations:
        click.echo(str(violation))
    if violations:
        ctx.exit(1)
    held = "every rule holds" if document.result.solution else "no schedule; bounds and evidence hold"
    if document.options.modulo_only:
        held += " for dependences and units; the joint rules (groups, registers, memory) were not checked"
    said = f"{document.result.status}{_part(made)}{_ties(document, case.problem)}"
    click.echo(f"{problem.name}: {held}; {said}")
    for claim in (*document.result.notes, *(reason.text for reason in document.result.reasons)):
        click.echo(f"  not checked, the writer's: {claim}")
    if prove:
        ctx.exit(_proved(document, tied(document, case.problem), time_limit))


def _part(made: "Made") -> str:
    """The limits that the schedule keeps to leave room for other thread blocks: the status is of schedules
    within them."""
    if made.blocks is None:
        return ""
    limits = made.case.problem.limits
    return (
        f", in the limits of one of {made.blocks} thread blocks on an SM: {limits.groups} groups,"
        f" {limits.registers_per_thread} registers a thread, {limits.shared} bytes of shared memory"
    )


def _ties(document: "ScheduleDocument", problem: "Problem") -> str:
    """Which groups the schedule shares with other loops of the kernel: the status is of schedules that do."""
    from twill.verify.document import ties

    together, apart = ties(document, problem)
    said = [f"{', '.join(ops)} in one group" for ops in together]
    said += [f"{a} and {b} in different groups" for a, b in apart]
    return f", with ties that the file adds to the problem: {'; '.join(said)}" if said else ""


def _proved(document: "ScheduleDocument", problem: "Problem", time_limit: float) -> int:
    """Confirm the proof with another engine, say how that went; the exit status."""
    from twill.smt.prove import confirm

    joint = not document.options.modulo_only
    result = replace(document.result, problem=problem)
    found = worker.alone(lambda: confirm(result, time_limit, joint=joint))
    if found is None:
        click.echo("proof: a bound refutes every smaller interval; it was computed again")
        return 0
    interval, most = found.interval, found.max_in_flight
    click.echo(
        f"proof: interval {interval} with up to {most} iterations in flight, refuted by {found.recorded},"
        f" {_again(found, time_limit)}"
    )
    return 1 if found.contradicted else 0 if found.confirmed else 4


def _again(found: "Confirmation", time_limit: float) -> str:
    """What other engines made of a refutation."""
    whole = f"by {found.by} on the whole problem" if found.by else ""
    if found.contradicted:
        return f"has a schedule, found {whole} with up to {found.whole}: please report this"
    if found.whole < found.max_in_flight:
        whole = f"{whole} with up to {found.whole}" if whole else ""
    if found.projected:
        return f"is refuted by {found.projected} on that projection too{', and ' if whole else ''}{whole}"
    if found.confirmed:
        return f"is refuted {whole} too"
    return (
        f"was not decided by another engine in {time_limit:g} s{'; it is refuted ' if whole else ''}{whole}"
    )
