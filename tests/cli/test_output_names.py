"""What the files of loops are called."""

import pytest

from twill.cli.output import prefixes_of


@pytest.mark.parametrize(
    ("paths", "prefixes"),
    [
        (["k/for.0/for.0"], [""]),
        (["k/for.0/for.0", "k/for.0/for.1"], ["for.0.", "for.1."]),
        (["k/for.0", "k/for.1/for.0"], ["for.0.", "for.1.for.0."]),
    ],
)
def test_no_two_loops_have_the_same_files(paths: list[str], prefixes: list[str]) -> None:
    assert prefixes_of(paths) == prefixes
