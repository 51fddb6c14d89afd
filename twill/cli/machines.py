"""`twill machines`: the machine models that come with Twill."""

from collections.abc import Sequence

import click

from twill.ir.machine import Cost, Machine


@click.group(short_help="List the machine models, or show one.")
def machines() -> None:
    """The machine models that loops can be scheduled for. Each is a TOML file in which every number has a
    source.

    \b
    twill machines list
    twill machines show h200
    twill machines show mine.toml       # check a file of your own
    """


@machines.command("list")
def list_machines() -> None:
    """List names, architectures, and the default machine of each architecture."""
    from twill.costs.machine import DEFAULTS, available, load

    found = [load(name) for name in available()]
    stands = {name: f"--arch {arch}" for arch, name in DEFAULTS.items()}
    _table(
        ("machine", "arch", "selected by", "description"),
        [(m.name, m.arch, stands.get(m.name, ""), m.description) for m in found],
    )


@machines.command()
@click.argument("machine", metavar="NAME|FILE")
def show(machine: str) -> None:
    """Show the units, limits and costs of one machine, with the source of every number."""
    from twill.costs.machine import load

    found = load(machine)
    click.secho(f"{found.name} ({found.arch}): {found.description}", bold=True)
    click.echo(f"from {found.file}\n")
    _table(("unit", "capacity", "bounds", "source"), _units(found))
    click.echo()
    _table(("limit", "value"), [(name, str(getattr(found.limits, name))) for name in found.limits.__slots__])
    click.echo(f"source: {found.sources.get('limits', '')}\n")
    _table(
        ("cost", "elements per cycle", "latency", "issue", "source"),
        [_cost(name, cost) for name, cost in found.costs.items()],
    )


def _units(machine: Machine) -> list[tuple[str, ...]]:
    return [
        (
            unit.name,
            str(unit.capacity),
            "sum" if unit.aggregate else "each cycle",
            machine.sources.get(f"units.{unit.name}", ""),
        )
        for unit in machine.units.values()
    ]


def _cost(name: str, cost: Cost) -> tuple[str, ...]:
    rates = ", ".join(f"{unit} {_rate(rate)}" for unit, rate in cost.rate.items())
    return name, rates, f"{cost.latency}", f"{cost.issue}" if cost.asynchronous else "all", cost.source


def _rate(rate: object) -> str:
    if isinstance(rate, dict):
        return "/".join(f"{kind} {value:g}" for kind, value in rate.items())  # pyright: ignore[reportUnknownVariableType]
    return f"{rate:g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns, the head in bold."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for number, row in enumerate((head, *rows)):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        click.secho(line, bold=number == 0)
