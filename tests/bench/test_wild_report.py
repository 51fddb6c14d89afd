"""The parts of the report on kernels of other projects."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from benchmarks.wild_report import Row, report, with_part, without_rows

ROWS = (
    Row("slow", "8 (8)", "yes", "right (0e+00)", "no", "yes"),
    Row("wide", "4 (4)", "yes", "right (0e+00)", "no", "yes", "8 bytes of registers are spilled"),
    Row("odd", remarks="not done within 1 s"),
)


def _part(heading: str, rows: tuple[Row, ...]) -> str:
    return report(rows, {"wide": "project: wide"}, "sm90", 1.0, heading)


def test_kernels_of_another_part_leave_the_tables_before() -> None:
    """Counts follow from the rows that are left; the part that has the kernels now, and text, stay."""
    text = with_part(with_part("", _part("# All", ROWS)), "## Notes\n\nwide | is wide\n")
    text = with_part(text, _part("## Again", ROWS[1:2]))
    made = without_rows(text, ["project: wide"], "## Again")
    before, notes, again = made.split("\n## ")
    assert "| slow |" in before
    assert "wide" not in before
    assert "- 2 kernels were tried\n- 1 are generated\n" in before
    assert "- 0 of these spill registers" in before
    assert "wide | is wide" in notes
    assert "| project: wide |" in again
    assert "- 1 of these spill registers" in again


def test_a_report_without_these_kernels_stays() -> None:
    text = with_part("", _part("# All", ROWS))
    assert without_rows(text, ["other"], "## Again") == text
