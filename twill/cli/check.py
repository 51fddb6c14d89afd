"""`twill check`: an independent verdict on a schedule file."""

from typing import Any

import click

from twill.cli.options import input_options, inputs, prepared, question_options


@click.command(short_help="Verify a schedule independently, with no solver.")
@click.argument("schedule")
@click.argument("spec")
@input_options
@question_options
@click.pass_context
def check(ctx: click.Context, schedule: str, spec: str, **options: Any) -> None:
    """Verify SCHEDULE, a schedule.json, against SPEC, the kernel or graph that it was made from.

    The problem is built afresh from SPEC, with the machine that the schedule names unless --machine or --arch says otherwise; every
    rule is judged on the numbers, the bounds are computed again, and the status must follow from the evidence. What-if options must
    be given again.

    \b
    twill check out/schedule.json kernel.ttgir

    Exit status: 0 all rules hold, 1 some rule is broken, 2 bad input.
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
