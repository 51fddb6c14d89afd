"""`twill check`: verify a schedule file without a solver."""

from typing import Any

import click

from twill.cli.options import Command, input_options, inputs, prepared, what_if_options


@click.command(cls=Command, short_help="Verify a schedule independently, with no solver.")
@click.argument("schedule")
@click.argument("spec")
@input_options
@what_if_options
@click.pass_context
def check(ctx: click.Context, schedule: str, spec: str, **options: Any) -> None:
    """Verify SCHEDULE, a schedule.json, against SPEC, the kernel or graph that it was made from.

    The command builds the problem from SPEC again, for the machine named in the schedule unless --machine or --arch names another. It
    checks every rule on the numbers, computes the bounds again, and checks that the status follows from the evidence. Repeat the
    what-if options that the schedule was made with.

    \b
    twill check out/schedule.json kernel.ttgir

    Exit status: 0 all rules hold, 1 a rule is broken, 2 bad input.
    """
    from twill.files import load, read_schedule
    from twill.verify import check_document

    document = read_schedule(load(schedule), schedule)
    problem = document.result.problem
    if not spec.endswith(".json"):
        options["machine"] = options["machine"] or (None if options["arch"] else problem.machine)
        options["loops"] = options["loops"] or ((problem.name,) if problem.source else ())
    (case, *_) = prepared(inputs(spec, options))
    violations = check_document(document, case.problem)
    for violation in violations:
        click.echo(str(violation))
    if violations:
        ctx.exit(1)
    held = "every rule holds" if document.result.solution else "no schedule; bounds and evidence hold"
    click.echo(f"{problem.name}: {held}; {document.result.status}")
