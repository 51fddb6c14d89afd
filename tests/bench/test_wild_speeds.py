"""The speeds of other projects' kernels: what is kept of measurements, and the part of the report."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from benchmarks.launches.cases import CASES
from benchmarks.launches.others.cases import CASES as OTHERS
from benchmarks.wild_speeds import Launch, of_kernels, part, read, with_rows, write

REPORTS = Path(__file__).resolve().parents[2] / "reports"
TIMED: dict[str, Any] = {
    "name": "fast",
    "case": "large",
    "errors": {"c": 2e-6, "d": 0.0},
    "wrong": [],
    "ms": {"twill": 1.0, "triton3": 3.0, "triton4": 2.0},
    "ratio": 2.0,
}
RAGGED: dict[str, Any] = {"name": "fast", "case": "odd", "errors": {"c": 0.5}, "wrong": ["c"]}
REFUSED = {"name": "fast", "case": "large", "refused": "an array of another type"}


def test_the_last_measurement_of_a_launch_counts(tmp_path: Path) -> None:
    before = {"fast": {"large": Launch("2026-01-01", 0.0, ms=2.0, triton_ms=2.0)}}
    after = with_rows(before, [TIMED, RAGGED], "2026-01-02")
    assert after["fast"]["large"] == Launch("2026-01-02", 2e-6, ms=1.0, triton_ms=2.0)
    assert after["fast"]["odd"] == Launch("2026-01-02", 0.5, wrong=True)
    assert with_rows(before, [REFUSED], "2026-01-02") == before
    path = tmp_path / "speeds.json"
    write(path, "H200", after)
    write(path, "H100", before)
    assert read(path, "H200") == after
    assert read(path, "H100") == before


def test_the_report_counts_kernels_by_the_mean_of_their_launches() -> None:
    launches = {
        "small": Launch("2026-01-01", 0.0, ms=1.0, triton_ms=1.0),
        "large": Launch("2026-01-01", 0.0, ms=1.0, triton_ms=4.0),
    }
    slow = {"large": Launch("2026-01-01", 0.0, ms=1.0, triton_ms=0.5)}
    speeds = {"fast": launches, "slow": slow, "ragged": {"odd": Launch("2026-01-01", 0.5, wrong=True)}}
    assert of_kernels(speeds) == {"fast": 2.0, "slow": 0.5}
    made = part("H200", speeds, listed=("fast",))
    assert "| kernels that ran | 1 | 2 |" in made
    assert "| launches with other results than Triton's | 0 | 1 |" in made
    assert "| kernels at 1 or above | 1 | 0 |" in made
    assert "| slowest | 2.00 (fast) | 0.50 (slow) |" in made
    assert "| ragged | odd | wrong: 5e-01 |  |  |  | 2026-01-01 |" in made


def test_the_report_is_made_of_the_speeds_that_are_kept() -> None:
    speeds = read(REPORTS / "wild_speeds.json", "H200")
    assert part("H200", speeds, CASES) in (REPORTS / "wild.md").read_text(encoding="utf-8")


def test_the_launches_of_the_report_can_be_repeated() -> None:
    known = {kernel: {case["label"] for case in cases} for kernel, cases in {**OTHERS, **CASES}.items()}
    for kernel, launches in read(REPORTS / "wild_speeds.json", "H200").items():
        assert launches.keys() <= known[kernel], kernel


def test_nothing_that_is_kept_differs_from_triton() -> None:
    for kernel, launches in read(REPORTS / "wild_speeds.json", "H200").items():
        assert not any(one.wrong for one in launches.values()), kernel
