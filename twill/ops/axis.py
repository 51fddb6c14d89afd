"""The attribute `axis` of operations along one dimension."""

from twill.ir.loop import Op


def axis_of(op: Op) -> int:
    """The dimension that an operation reduces, scans, gathers along, inserts or takes its numbers from."""
    return int(str(op.attributes["axis"]))
