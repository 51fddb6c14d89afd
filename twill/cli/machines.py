"""`twill machines`: the machines that come with Twill."""

import click


@click.group(short_help="List machines, or show one.")
def machines() -> None:
    """The machines that schedules can be made for. Each is a TOML file whose every number names its source.

    \b
    twill machines list
    twill machines show h200
    twill machines show mine.toml       # is it well formed?
    """
