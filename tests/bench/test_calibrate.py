"""Measured costs of a Blackwell GPU take the place of the estimates in its machine file."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.calibrate.machine import MACHINE, NUMBERS, Found, at, rewritten
from twill.costs.machine import load

RECORDS = (
    *(Found(one.record, {**one.wanted, "m": 128}, 400.0 + i, 100.0 + i) for i, one in enumerate(NUMBERS)),
    *(Found(one.record, one.beyond, None, 50.0) for one in NUMBERS if one.beyond),
)
FILE = "benchmarks/calibrate/results/b200.json"


def test_every_number_is_replaced_on_its_line(tmp_path: Path) -> None:
    before = MACHINE.read_text()
    after, said = rewritten(before, RECORDS, FILE)
    assert len(said) == len(NUMBERS)
    assert before.count("\n") == after.count("\n")
    changed = [
        (old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new
    ]
    assert all(new.startswith(old.split(" = ", maxsplit=1)[0]) for old, new in changed)
    assert {at(after, one) for one in NUMBERS}.isdisjoint({0.0})
    path = tmp_path / "measured.toml"
    path.write_text(after)
    assert load(str(path)).handover.poll == at(after, next(one for one in NUMBERS if one.path == ("poll",)))


def test_numbers_without_a_record_stay() -> None:
    text = MACHINE.read_text()
    records = [Found("exp2", {"groups": 2}, None, 1024.0)]
    after, said = rewritten(text, records, FILE)
    assert said == ["costs.special rate.sfu: 16 -> 16 (exp2)"]
    one, other = (tomllib.loads(one)["costs"]["special"] for one in (text, after))
    assert other["source"] == f"measured ({FILE}): exp2; before: {one['source']}"
    assert {**one, "source": ""} == {**other, "source": ""}
    assert rewritten(after, records, FILE)[0] == after


def test_a_measured_number_has_no_range(tmp_path: Path) -> None:
    """Those that are not measured keep theirs, also in the same section."""
    before, after = (tmp_path / name for name in ("before.toml", "after.toml"))
    before.write_text(MACHINE.read_text())
    after.write_text(rewritten(MACHINE.read_text(), RECORDS, FILE)[0])
    old, new = (set(load(str(path)).between) for path in (before, after))
    measured = {(*one.section.split("."), *one.path) for one in NUMBERS}
    assert new == old - measured
    assert {("costs", "tmem_store", "rate", "tmem"), ("handover", "poll")} <= old & measured
    assert {("costs", "tmem_store", "issue_rate"), ("stream", "minimum")} <= new


def test_what_grows_with_the_bytes_is_measured_by_two_records() -> None:
    """On an H200, a tile takes a cycle more for each 70 bytes (machines/h200.toml)."""
    made = json.loads((Path("benchmarks/calibrate/results") / "h200.json").read_text())
    records = [Found(**one) for one in made["records"]]
    grown = next(one for one in NUMBERS if one.path == ("bytes_per_cycle",))
    assert grown.measured(records) == 69.9
    assert grown.measured([one for one in records if one.parameters.get("bytes") != 2048]) is None


def test_a_number_without_a_line_is_refused() -> None:
    text = MACHINE.read_text().replace("latency_rate = 30.8\n", "")
    with pytest.raises((KeyError, ValueError)):
        rewritten(text, RECORDS, FILE)


def test_every_record_is_one_that_the_microbenchmarks_make() -> None:
    """By name, in the text of both files."""
    folder = Path("benchmarks/calibrate")
    text = "".join((folder / name).read_text() for name in ("blackwell.cu", "common.cuh"))
    reported = set(re.findall(r'"(\w+)"', text))
    assert {one.record for one in NUMBERS} <= reported
    kinds = {str(one.wanted["kind"]) for one in NUMBERS if "kind" in one.wanted}
    assert kinds <= reported


def test_results_of_hopper_are_as_records_are_read() -> None:
    made = json.loads((Path("benchmarks/calibrate/results") / "h200.json").read_text())
    assert [Found(**one) for one in made["records"]]
