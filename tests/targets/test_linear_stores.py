"""Stores through pointers of tiles in linear layouts: what goes in one access, and when masks are looked at.
Values are compared by `tests/emulate`, with ragged ends too."""

import re

import pytest

from tests.kernels.programs import cuda, program
from twill.targets import target
from twill.targets.cuda.global_stores import linear_stores


def stores(kernel: str) -> list[str]:
    """The statements that store elements of `c`."""
    return [line for line in cuda(kernel).splitlines() if re.search(r"\(c \+|\*c\b", line)]


@pytest.mark.parametrize("kernel", ["panels.sm100", "stacked.sm100", "pointers.sm100"])
def test_neighbours_go_in_one_access_of_16_bytes(kernel: str) -> None:
    found = stores(kernel)
    assert found
    assert all("store_neighbours<4>" in line for line in found), found


def test_a_mask_is_that_of_the_first_element() -> None:
    """Rows and columns are compared where the element is: the mask joins conditions of one dimension each."""
    (masked,) = {
        line.split(" store_neighbours")[0].replace("(n - 1)", "(i - 1)").strip()
        for line in stores("panels.sm100")
    }
    rows, columns = "((i_ * 8) >> 3) & 3) * 32", "((i_ * 8) & 7)"
    inside, below = masked.split(" < inside")
    assert rows in inside
    assert columns in below
    assert rows not in below


def test_what_may_not_be_aligned_goes_element_by_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """And looks at no mask where one comparison of scalars says that all of the tile is inside."""

    def nothing_known(*_: object) -> int:
        return 0

    monkeypatch.setattr(linear_stores, "moved_together", nothing_known)
    lines = target("sm100").source(program("panels.sm100")).splitlines()
    begin = [i for i, line in enumerate(lines) if "if (m_3 + int64_t(127) < inside && " in line]
    assert begin
    for at in begin:
        fast, otherwise, slow = lines[at + 3], lines[at + 4], lines[at + 7]
        assert fast.lstrip().startswith("*((c + ")
        assert otherwise.strip() == "} else {"
        assert slow.lstrip().startswith("if ((((m_3 + ")
        assert slow.split(" *((c + ")[1] == fast.split("*((c + ")[1]
