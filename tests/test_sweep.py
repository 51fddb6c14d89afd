"""Grids of configurations: expansion, pruning, ranking, and files that an autotuner takes."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from twill import sweep
from twill.bench.measure import Spread
from twill.bench.ranking import Ranking, table, text
from twill.cli import run
from twill.diagnostics import TwillError
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.search import Options
from twill.pipeline import solve
from twill.sweep import Compute, Configuration, Outcome, Task, one_by_one


def test_values() -> None:
    assert sweep.values("64,128") == ("64", "128")
    assert sweep.values("64:256:64") == ("64", "128", "192", "256")
    assert sweep.values("*fp16:16") == ("*fp16:16",)
    with pytest.raises(TwillError, match="not a range"):
        sweep.values("64:32:16")


def test_the_grid_has_every_combination() -> None:
    points = sweep.grid(["sm90", "sm100"], [("M", "1,2"), ("N", "3,4,5")])
    assert len({point.key for point in points}) == 12
    assert points[0].key == "sm90 M=1 N=3"


def test_the_best_come_first_and_ties_go_to_less_pressure() -> None:
    slow = Outcome("a", "optimal", 10, 20.0, 1000)
    fast = Outcome("b", "optimal", 10, 10.0, 1000, pressure=0.9)
    loose = Outcome("c", "optimal", 10, 10.0, 1000, pressure=0.5)
    open_ = Outcome("d", "pruned", 10, None, 1000)
    assert [one.key for one in sweep.ranked([open_, slow, fast, loose])] == ["c", "b", "a", "d"]


def test_a_launch_is_ranked_by_its_time() -> None:
    """The one with the higher rate may have the longer tail."""
    fast = Outcome("fast", "optimal", 10, 10.0, 1000, cycles=5000.0, cycles_bound=4000.0)
    short = Outcome("short", "optimal", 20, 20.0, 1000, cycles=4500.0, cycles_bound=4500.0)
    cut = Outcome("cut", "pruned", 20, None, 1000, cycles_bound=4600.0)
    assert fast.rate > short.rate
    assert [one.key for one in sweep.ranked([cut, fast, short])] == ["short", "fast", "cut"]


def test_configurations_are_a_python_module() -> None:
    best = [
        Outcome("sm90 BLOCK_M=64 num_warps=8", "optimal", 1, 2.0, 3),
        Outcome("sm90 BLOCK_M=32", "pruned", 1),
    ]
    text = sweep.triton_configs(best, ["sm90"], 4)
    assert "triton.Config({'BLOCK_M': 64}, num_warps=8)," in text
    assert "32" not in text


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Compute:
    """Solves, for configurations whose bound is their setting."""

    def prepared(inputs: Inputs, point: Configuration, launch: object) -> tuple[Outcome, tuple[object, ...]]:
        low = float(dict(point.settings)["I"])
        return Outcome(point.key, "unknown", low, macs=1000), (low,)

    def evaluated(outcome: Outcome, found: tuple[float, ...], solved: object, timed: object) -> Outcome:
        return Outcome(outcome.key, "optimal", outcome.bound, found[0] + 1, 1000)

    monkeypatch.setattr(sweep, "prepared", prepared)
    monkeypatch.setattr(sweep, "evaluated", evaluated)
    return one_by_one(lambda problem: solve(problem, Options(time_limit=1)))


def test_only_what_cannot_be_among_the_best_is_pruned(counted: Compute) -> None:
    points = sweep.grid(["sm90"], [("I", "40,10,11,30")])
    found = {one.key: one for one in sweep.swept(Inputs("x"), points, counted, {}, 2)}
    assert {key for key, one in found.items() if one.status == "pruned"} == {"sm90 I=30", "sm90 I=40"}
    best = sweep.ranked(found.values())[:2]
    assert [one.key for one in best] == ["sm90 I=10", "sm90 I=11"]


def test_several_at_a_time_are_pruned_by_those_before(counted: Compute) -> None:
    points = sweep.grid(["sm90"], [("I", "40,10,11,30,12")])
    sizes = list[int]()

    def compute(tasks: Sequence[Task]) -> Sequence[Outcome]:
        sizes.append(len(tasks))
        return counted(tasks)

    found = {one.key: one for one in sweep.swept(Inputs("x"), points, compute, {}, 2, width=3)}
    assert sizes == [3]
    assert {key for key, one in found.items() if one.status == "pruned"} == {"sm90 I=30", "sm90 I=40"}


def test_an_earlier_run_is_not_repeated(counted: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    points = sweep.grid(["sm90"], [("I", "10,20")])
    first = {one.key: one for one in sweep.swept(Inputs("x"), points, counted, {}, 5)}
    monkeypatch.setattr(sweep, "evaluated", lambda *_: pytest.fail("solved again"))  # pyright: ignore
    assert {one.key: one for one in sweep.swept(Inputs("x"), points, counted, first, 5)} == first


def test_a_kernel_is_swept_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    command = [
        "sweep",
        "examples/kernels.py:gemm",
        "--arch",
        "sm90",
        "--set",
        "BLOCK_N=64,192,256",
        "--out",
        str(tmp_path),
    ]
    assert run(command) == 0
    rows = list(csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines()))
    assert {row["BLOCK_N"]: row["status"] for row in rows} == {
        "64": "optimal",
        "192": "refused",
        "256": "optimal",
    }
    assert rows[0]["BLOCK_N"] == "256"
    compile((tmp_path / "configs.py").read_text(), "configs.py", "exec")
    before = (tmp_path / "sweep.jsonl").read_text()
    capsys.readouterr()
    assert run(command) == 0
    assert (tmp_path / "sweep.jsonl").read_text() == before


def milliseconds(**of: float) -> dict[str, Spread]:
    return {f"sm90 BLOCK_N={name[1:]}": Spread(one, one, one) for name, one in of.items()}


def test_how_a_ranking_held() -> None:
    found = milliseconds(n1=1.0, n2=0.8, n3=1.2, n4=1.5)
    held = Ranking({"M": 64}, tuple(found.items()))
    assert held.order == (2, 1, 3, 4)
    assert held.correlation == pytest.approx(0.8)
    assert held.loss == pytest.approx(0.25)
    assert "rank correlation 0.80; the best predicted one is 25.0% slower than the fastest" in text(held)
    assert table(held).splitlines()[1] == "sm90 BLOCK_N=1,1,2,1.00000,1.00000,1.00000"
    alone = Ranking({}, tuple(milliseconds(n1=1.0).items()))
    assert (alone.order, alone.correlation, alone.loss) == ((1,), None, 0.0)


def test_the_best_are_measured_and_the_fastest_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the launches: of four configurations three are built, one of them can not be generated."""
    pytest.importorskip("triton")
    compared = list[str]()

    def built(inputs: Inputs, options: GenerateOptions, report: object) -> Path:
        if dict(inputs.settings)["BLOCK_N"] == "256":
            raise TwillError("not this one")
        return tmp_path / dict(inputs.settings)["BLOCK_N"]

    def times(runs: Mapping[str, object], rounds: int) -> dict[str, Spread]:
        assert list(runs) == ["sm90 BLOCK_N=128", "sm90 BLOCK_N=64"]
        return milliseconds(n128=2.0, n64=1.0)

    monkeypatch.setattr("twill.bench.measure.ready", lambda arch: None)  # pyright: ignore
    monkeypatch.setattr("twill.generation.builds.built.built", built)
    monkeypatch.setattr("twill.cli.worker.watched", lambda work: work(lambda name, event: None))  # pyright: ignore
    monkeypatch.setattr("twill.bench.ranking.load", lambda folder: folder)  # pyright: ignore

    def field(spec: str, arch: str, settings: object, kernel: Path) -> SimpleNamespace:
        def case(shape: Mapping[str, int]) -> SimpleNamespace:
            return SimpleNamespace(kernel=kernel, shape=shape)

        return SimpleNamespace(case=case, own=case)

    monkeypatch.setattr("twill.bench.ranking.field", field)
    monkeypatch.setattr(
        "twill.bench.ranking.values",
        lambda lineup, case: compared.append(f"{case.kernel.name} {case.shape['K']}"),  # pyright: ignore
    )
    monkeypatch.setattr("twill.bench.ranking.times", times)
    command = ["sweep", "examples/kernels.py:gemm", "--arch", "sm90", "--set", "BLOCK_N=64,128,256,32"]
    command += ["--shape", "M=4096", "--shape", "N=4096", "--shape", "K=4096", "--bench", "2"]
    command += ["--grid", "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)", "--out", str(tmp_path / "out")]
    assert run(command) == 0
    assert compared == ["128 4096", "64 4096"]
    printed = capsys.readouterr()
    assert "not measured: sm90 BLOCK_N=256: not this one" in printed.err
    assert "rank correlation -1.00; the best predicted one is 100.0% slower than the fastest" in printed.out
    rows = list(csv.DictReader((tmp_path / "out" / "measured.csv").read_text().splitlines()))
    assert [(row["configuration"], row["measured"]) for row in rows] == [
        ("sm90 BLOCK_N=128", "2"),
        ("sm90 BLOCK_N=64", "1"),
    ]
    configs = (tmp_path / "out" / "configs.py").read_text()
    assert configs.index("'BLOCK_N': 64") < configs.index("'BLOCK_N': 128") < configs.index("'BLOCK_N': 256")


def test_nothing_is_solved_where_nothing_can_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "grid", lambda *_: pytest.fail("a sweep has begun"))  # pyright: ignore
    command = ["sweep", "examples/kernels.py:gemm", "--bench", "2", "--out", str(tmp_path), "--arch"]
    monkeypatch.setattr("twill.bench.measure.present", lambda: None)
    monkeypatch.setattr("twill.bench.measure.find_spec", lambda name: name)  # pyright: ignore
    assert run([*command, "sm100,sm90"]) == 2
    assert "measuring needs a Blackwell GPU (B200)" in capsys.readouterr().err
    monkeypatch.setattr("twill.bench.measure.find_spec", lambda name: None)  # pyright: ignore
    assert run([*command, "sm90"]) == 2
    assert "measuring needs PyTorch" in capsys.readouterr().err
