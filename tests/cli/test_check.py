"""`twill check`: what it says about modulo-only schedules, and `--prove`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.hopper import VARIANTS
from twill.cli import twill

GEMM = "examples/ttgir/gemm.sm90.ttgir"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(twill, arguments)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a GEMM, under all rules."""
    folder = tmp_path_factory.mktemp("schedule")
    assert run("schedule", GEMM, "--arch", "sm90", "--no-drawings", "--out", str(folder))[0] == 0
    return folder / "schedule.json"


def test_modulo_only_says_what_was_not_checked(tmp_path: Path) -> None:
    assert (
        run("schedule", GEMM, "--arch", "sm90", "--modulo-only", "--no-drawings", "--out", str(tmp_path))[0]
        == 0
    )
    status, text = run("check", str(tmp_path / "schedule.json"), GEMM, "--arch", "sm90")
    assert status == 0
    assert "the joint rules (groups, registers, memory) were not checked" in text


def test_prove_at_the_lower_bound_needs_no_engine(schedule: Path) -> None:
    status, text = run("check", str(schedule), GEMM, "--arch", "sm90", "--prove")
    assert status == 0
    assert "a bound refutes every smaller interval" in text


def test_a_false_infeasible_is_refused(schedule: Path, tmp_path: Path) -> None:
    """Without a refutation up to the last interval that could matter."""
    document = json.loads(schedule.read_text())
    document |= {
        "status": "infeasible",
        "refuted": [],
        "groups": [],
        "places": [],
        "notes": [],
        "reasons": [],
    }
    document |= dict.fromkeys(("interval", "length", "stages", "copies", "interval_cycles", "length_cycles"))
    document["bounds"]["proved"] = 1
    for op in document["ops"]:
        op |= {"start": None, "stage": None, "group": None}
    for edge in document["edges"]:
        edge["cross_group"] = None
    false = tmp_path / "false.json"
    false.write_text(json.dumps(document))
    status, text = run("check", str(false), GEMM, "--arch", "sm90")
    assert status == 1
    assert "could work and nothing refutes them" in text


def test_an_engine_that_does_not_exist_is_refused(schedule: Path, tmp_path: Path) -> None:
    document = json.loads(schedule.read_text())
    document["refuted"].append({"interval": 1023, "copies": 4, "by": "oracle", "seconds": 0, "below": True})
    false = tmp_path / "false.json"
    false.write_text(json.dumps(document))
    status, text = run("check", str(false), GEMM, "--arch", "sm90")
    assert status == 1
    assert "'oracle' is no engine" in text


def kept(name: str) -> list[Path]:
    return sorted(Path("reports/schedules").glob(f"{name}.for.*.json"))


KEPT = [(name, path) for name in VARIANTS for path in kept(name)]
"""Every schedule in reports/schedules, with the kernel that it is kept for."""


def test_every_kept_schedule_has_its_kernel() -> None:
    assert {path for _, path in KEPT} == set(Path("reports/schedules").iterdir())


@pytest.mark.parametrize(("name", "path"), KEPT, ids=[path.name for _, path in KEPT])
def test_kept_schedules_hold(name: str, path: Path) -> None:
    """With today's costs. The schedule does not say whether its kernel is persistent, claims its tiles, or
    waits inside of exponentials."""
    pytest.importorskip("triton")
    variant = VARIANTS[name]
    settings = [word for pair in variant.settings.items() for word in ("--set", "=".join(pair))]
    settings += ["--tile", "=".join(map(str, variant.tile))] if variant.tile else []
    status, text = run("check", str(path), f"examples/kernels.py:{variant.kernel}", *settings)
    assert status == 0, text


def test_notes_and_reasons_are_marked_as_the_writers(schedule: Path, tmp_path: Path) -> None:
    document = json.loads(schedule.read_text())
    document["notes"] = ["no kernel is faster"]
    document["reasons"] = [{"family": "registers", "text": "registers exclude 1023"}]
    (tmp_path / "claims.json").write_text(json.dumps(document))
    status, text = run("check", str(tmp_path / "claims.json"), GEMM, "--arch", "sm90")
    assert status == 0, text
    assert "not checked, the writer's: no kernel is faster\n" in text
    assert "not checked, the writer's: registers exclude 1023\n" in text


@pytest.mark.parametrize("loop", ["fa_fwd_causal.for.1", "fa_fwd_subtiled.for.0"])
def test_ties_to_other_loops_are_named(loop: str) -> None:
    """The groups of a loop are those of other loops of the kernel."""
    spec = f"examples/ttgir/{loop.partition('.')[0]}.sm90.ttgir"
    status, text = run("check", f"reports/schedules/{loop}.json", spec)
    assert status == 0, text
    tied = "max.raised_39 and max.raised_48 in different groups"
    assert (tied in text) == (loop == "fa_fwd_causal.for.1")
