"""The commands on graph files: exit status, standard output, files, messages."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import attention, figure1
from twill.cli import run
from twill.files import write_graph
from twill.ir.problem import Problem


@pytest.fixture
def graph(tmp_path: Path) -> str:
    return saved(figure1().problem, tmp_path)


def saved(problem: Problem, folder: Path) -> str:
    path = folder / "loop.graph.json"
    path.write_text(write_graph(problem))
    return str(path)


def test_help_imports_nothing_heavy() -> None:
    heavy = ("ortools", "networkx", "matplotlib", "rich", "jinja2", "numpy", "triton")
    script = f"import sys; from twill.cli import run; run(['--help']); print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "schedule" in done.stdout


@pytest.mark.parametrize("command", ["schedule", "extract", "graph", "check", "machines"])
def test_every_command_explains_itself_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"twill {command} " in capsys.readouterr().out.split("Options:")[0].split("\n", 1)[1]


def test_schedule_prints_the_answer_of_figure_1(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", graph]) == 0
    out = capsys.readouterr().out
    assert "figure1 on figure1: optimal" in out
    assert "2 cycles; no smaller one exists" in out
    assert "resources 2 cycles for unit TC" in out


def test_json_prints_the_document_alone(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", graph, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert (document["schema"], document["interval"]) == ("twill.schedule/1", 2)
    assert [op["id"] for op in document["ops"]] == ["S", "P", "O"]


def test_the_same_input_gives_the_same_bytes(graph: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run(["schedule", graph, "--reproducible", "--out", str(tmp_path / name)]) == 0
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert first == second
    assert set(first) == {
        *("schedule.json", "loop.graph.json", "program.txt", "report.html"),
        *("graph.svg", "graph.png", "graph.dot", "timeline.svg", "timeline.png"),
    }


def test_no_drawings(graph: str, tmp_path: Path) -> None:
    assert run(["schedule", graph, "--out", str(tmp_path / "out"), "--no-drawings"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"schedule.json", "loop.graph.json", "program.txt"}


def test_the_written_graph_gives_the_same_schedule(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["schedule", graph, "--out", str(tmp_path), "--no-drawings", "--reproducible"])
    capsys.readouterr()
    assert run(["schedule", str(tmp_path / "loop.graph.json"), "--json", "--reproducible"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "schedule.json").read_text())


def test_check_accepts_the_answer_and_rejects_a_changed_one(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["schedule", graph, "--out", str(tmp_path), "--no-drawings"])
    path = tmp_path / "schedule.json"
    assert run(["check", str(path), graph]) == 0
    document = json.loads(path.read_text())
    document["ops"][2]["start"] = 2
    path.write_text(json.dumps(document))
    assert run(["check", str(path), graph]) == 1
    assert "UNITS" in capsys.readouterr().out


def test_proven_infeasible_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = attention().problem
    graph = saved(problem, tmp_path)
    assert run(["schedule", graph, "--smem", "1000", "--no-explain"]) == 3
    assert "proven infeasible" in capsys.readouterr().out


def test_a_limit_is_status_4_with_a_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = attention().problem
    tight = replace(problem, limits=replace(problem.limits, registers_per_thread=152))
    status = run(["schedule", saved(tight, tmp_path), "--time-limit", "0.1"])
    assert status == 4
    assert "at least" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "missing.graph.json"], "cannot read"),
        (["schedule", "missing.ttgir", "--arch", "sm90"], "cannot read"),
        (["schedule"], "Missing argument"),
        (["schedule", "x.graph.json", "--engine", "magic"], "magic"),
        (["schedule", "x.graph.json", "--latency", "qk"], "not of the form OP=CYCLES"),
        (["schedule", "x.graph.json", "--resolution", "fine"], "neither 'exact'"),
        (["conjure"], "No such command"),
    ],
)
def test_bad_input_is_status_2(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, *(["--out", str(tmp_path / "out")] if arguments[0] == "schedule" else [])]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
    assert not (tmp_path / "out").exists()


def test_a_mistake_in_a_graph_points_at_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.graph.json"
    path.write_text(write_graph(figure1().problem).replace('"latency": 1', '"latency": "one"', 1))
    assert run(["schedule", str(path)]) == 2
    assert f"{path}:" in capsys.readouterr().err


def test_graph_draws_without_solving(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", graph, "--out", str(tmp_path / "g")]) == 0
    assert {p.name for p in (tmp_path / "g").iterdir()} == {"graph.svg", "graph.png", "graph.dot", "loop.graph.json"}
    assert "resources 2 cycles for unit TC" in capsys.readouterr().out


def test_pins_are_obeyed(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pins = tmp_path / "pins.json"
    pins.write_text('{"starts": {"P": 4}}')
    assert run(["schedule", graph, "--pin", str(pins), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {op["id"]: op["start"] for op in document["ops"]}["P"] == 4
