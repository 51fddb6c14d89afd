"""The commands on graph files: exit status, standard output, files, messages."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import attention, figure1
from twill.cli import run
from twill.emit.files import RECORD
from twill.files import write_graph
from twill.ir.problem import Problem
from twill.ir.schedule import Result


@pytest.fixture
def graph(tmp_path: Path) -> str:
    return saved(figure1().problem, tmp_path)


def saved(problem: Problem, folder: Path) -> str:
    path = folder / "loop.graph.json"
    path.write_text(write_graph(problem))
    return str(path)


def test_help_imports_nothing_heavy() -> None:
    heavy = ("ortools", "networkx", "matplotlib", "rich", "jinja2", "numpy", "triton")
    script = (
        f"import sys; from twill.cli import run; run(['--help']); print([m for m in {heavy} if m in"
        " sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "schedule" in done.stdout


def test_a_schedule_at_the_bound_needs_no_solver() -> None:
    heavy = ("ortools", "pysat", "networkx", "pandas", "matplotlib", "rich")
    script = (
        "import sys; from twill.cli import run; run(['schedule', 'examples/ttgir/gemm.sm90.ttgir']);"
        f" print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "optimal" in done.stdout


@pytest.mark.parametrize(
    "command",
    ["schedule", "extract", "graph", "codegen", "simulate", "emulate", "bench", "check", "machines"],
)
def test_every_command_explains_itself_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"twill {command} " in capsys.readouterr().out.split("Options:")[0].split("\n", 1)[1]


def test_a_graph_of_no_machine_is_named_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", saved(replace(figure1().problem, machine=""), tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("figure1: optimal\n")


def test_a_schedule_that_cannot_be_written_is_printed(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(folder: Path, files: object) -> list[Path]:
        raise OSError(28, "No space left on device", str(folder / "graph.png"))

    monkeypatch.setattr("twill.cli.schedule.write_all", full)
    assert run(["schedule", graph, "--out", str(tmp_path / "out")]) == 2
    out, errors = capsys.readouterr()
    assert "figure1 on figure1: optimal" in out
    assert errors.splitlines()[-1].endswith("graph.png: No space left on device")


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
    assert set(first) - {RECORD} == {
        *("schedule.json", "loop.graph.json", "costs.txt", "program.txt", "report.html"),
        *("graph.svg", "graph.png", "graph.dot", "timeline.svg", "timeline.png"),
    }


def test_no_drawings(graph: str, tmp_path: Path) -> None:
    assert run(["schedule", graph, "--out", str(tmp_path / "out"), "--no-drawings"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} - {RECORD} == {
        "schedule.json",
        "loop.graph.json",
        "costs.txt",
        "program.txt",
    }


def test_large_loops_are_not_drawn(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twill.cli.schedule.DRAWN", 2)
    assert run(["schedule", graph, "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "report.html").exists()
    assert "no drawings of 3 operations, 2 at most" in capsys.readouterr().err


def test_the_written_graph_gives_the_same_schedule(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["schedule", graph, "--out", str(tmp_path), "--no-drawings", "--reproducible"])
    capsys.readouterr()
    assert run(["schedule", str(tmp_path / "loop.graph.json"), "--json", "--reproducible"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "schedule.json").read_text())


def test_check_accepts_the_answer_and_rejects_a_changed_one(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.parametrize(
    ("found", "says"), [(True, "a gap of 3.1%"), (False, "none found; proven: at least 2048 cycles")]
)
def test_a_limit_is_status_4_with_a_bound(
    found: bool,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = attention() if found else replace(attention(), solution=None, status="unknown")

    def stopped(*_: object) -> Result:
        return result

    monkeypatch.setattr("twill.pipeline.solve", stopped)
    assert run(["schedule", saved(result.problem, tmp_path)]) == 4
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "missing.graph.json"], "cannot read"),
        (["schedule", "missing.ttgir", "--arch", "sm90"], "cannot read"),
        (["schedule"], "Missing argument"),
        (["schedule", "x.graph.json", "--engine", "magic"], "magic"),
        (["schedule", "x.graph.json", "--latency", "qk"], "not of the form OP=CYCLES"),
        (["schedule", "x.graph.json", "--ahead", "qk"], "not of the form LOAD=ITERATIONS"),
        (["schedule", "x.graph.json", "--resolution", "fine"], "neither 'exact'"),
        (["conjure"], "No such command"),
    ],
)
def test_bad_input_is_status_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def _no(path: object, mode: int) -> bool:
    return False


@pytest.mark.parametrize("command", ["schedule", "graph", "simulate", "codegen"])
def test_a_folder_that_can_not_be_made_is_refused_before_anything_is_solved(
    command: str,
    graph: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("mine")
    assert run([command, graph, "--out", str(tmp_path / "file" / "out")]) == 2
    assert f"{tmp_path / 'file'} is a file" in capsys.readouterr().err
    monkeypatch.setattr(os, "access", _no)
    assert run([command, graph, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert f"cannot write to {tmp_path}" in captured.err
    assert not captured.out


def test_graph_draws_without_solving(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", graph, "--out", str(tmp_path / "g")]) == 0
    found = {p.name for p in (tmp_path / "g").iterdir()} - {RECORD}
    assert found == {"graph.svg", "graph.png", "graph.dot", "costs.txt", "loop.graph.json"}
    assert "resources 2 cycles for unit TC" in capsys.readouterr().out


def test_pins_are_obeyed(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pins = tmp_path / "pins.json"
    pins.write_text('{"starts": {"P": 4}}')
    assert run(["schedule", graph, "--pin", str(pins), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {op["id"]: op["start"] for op in document["ops"]}["P"] == 4


def test_an_edited_file_is_kept_under_another_name(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["schedule", graph, "--out", str(out), "--no-drawings"]
    assert run(command) == 0
    (out / "program.txt").write_text("edited")
    assert run(command) == 0
    assert f"{out / 'program.txt'} was there or was edited: kept as program.txt.1" in capsys.readouterr().err
    assert (out / "program.txt.1").read_text() == "edited"
    assert run(command) == 0
    assert {path.name for path in out.glob("program.txt*")} == {"program.txt", "program.txt.1"}


def test_files_of_an_earlier_run_do_not_survive_it(graph: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(["schedule", graph, "--out", str(out)])
    (out / "notes.txt").write_text("mine")
    assert run(["schedule", graph, "--smem", "0", "--out", str(out), "--no-drawings"]) == 0
    assert {p.name for p in out.iterdir()} - {RECORD} == {
        "schedule.json",
        "loop.graph.json",
        "costs.txt",
        "program.txt",
        "notes.txt",
    }


EXAMPLES = Path(__file__).parents[2] / "examples" / "ttgir"


def test_a_kernel_to_files_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(EXAMPLES / "gemm.sm90.ttgir")
    assert run(["schedule", kernel, "--out", str(tmp_path), "--no-drawings"]) == 0
    document = json.loads((tmp_path / "schedule.json").read_text())
    assert (document["status"], document["machine"], document["interval_cycles"]) == ("optimal", "h200", 1024)
    assert "twill.start" in (tmp_path / "annotated.ttgir").read_text()
    assert run(["check", str(tmp_path / "schedule.json"), kernel]) == 0
    assert "every rule holds" in capsys.readouterr().out


def test_what_if_questions_reach_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(EXAMPLES / "gemm.sm90.ttgir")
    assert run(["schedule", kernel, "--json", "--latency", "dot*=2000"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert next(op["latency"] for op in slow["ops"] if op["id"].startswith("dot")) == 2000
    assert run(["schedule", kernel, "--groups", "1", "--no-explain"]) == 3
    assert run(["schedule", kernel, "--no-rule", "magic"]) == 2
    assert run(["schedule", kernel, "--arch", "sm100"]) == 2


def test_several_loops_give_a_document_and_a_folder_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = str(EXAMPLES / "fa_fwd_causal.sm90.ttgir")
    arguments = [
        "schedule",
        kernel,
        "--modulo-only",
        "--out",
        str(tmp_path),
        "--no-drawings",
        "--json",
        "--time-limit",
        "5",
    ]
    assert run(arguments) in (0, 4)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [document["name"] for document in documents]
    assert len(set(names)) == 2
    assert {p.name for p in tmp_path.iterdir()} - {RECORD} == {name.replace("/", ".") for name in names}
    assert run(
        ["schedule", kernel, "--loop", names[1].split("/")[1], "--modulo-only", "--json", "--time-limit", "5"]
    ) in (0, 4)
    assert json.loads(capsys.readouterr().out)["name"] == names[1]


def test_a_loop_that_cannot_be_scheduled_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(EXAMPLES / "gemm_persistent.sm90.ttgir")
    assert run(["schedule", kernel, "--loop", "for.9"]) == 2
    assert "its loops: gemm_persistent/for.0" in capsys.readouterr().err
    assert run(["schedule", kernel, "--loop", "gemm_persistent/for.0"]) == 2
    assert f"{kernel}:" in capsys.readouterr().err


def test_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("h100", "h200", "b200", "--arch sm100"))
    assert run(["machines", "show", "h200"]) == 0
    assert "registers_per_thread  255" in capsys.readouterr().out
    assert run(["machines", "show", "gtx"]) == 2


def test_an_engine_that_is_not_installed_is_bad_input(
    graph: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr("twill.cli.schedule.find_spec", nothing)
    assert run(["schedule", graph, "--engine", "yices"]) == 2
    assert "not installed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gemm.sm90.scheduled", "specialized_gemm.sm100.scheduled"])
def test_what_triton_has_scheduled_already_is_refused_with_its_place(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[1] / "extract" / "fixtures" / "3.9.0" / f"{name}.ttgir"
    assert run(["schedule", str(file)]) == 2
    assert f"{file}:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--latency", "S=-5", "from 0 to"),
        ("--latency", f"S={10**20}", "from 0 to"),
        ("--latency", "S=abc", "not a whole number"),
        ("--ahead", "S=-5", "from 0 to"),
        ("--ahead", "S=1", "--ahead do not apply to it"),
        ("--registers", f"{10**20}", "from 0 to"),
        ("--resolution", "²", "positive whole number"),
        ("--resolution", f"{10**20}", "from 0 to"),
        ("--max-in-flight", f"{10**10}", "not in the range"),
        ("--time-limit", "nan", "not a number of seconds"),
        ("--time-limit", "0", "not in the range"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    graph: str, option: str, value: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["schedule", graph, option, value]) == 2
    assert words in capsys.readouterr().err


def test_a_kernel_file_that_exits_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    (tmp_path / "k.py").write_text("import sys\nsys.exit(0)\n")
    assert run(["schedule", f"{tmp_path / 'k.py'}:k", "--arch", "sm90"]) == 2
    assert "k.py:2" in capsys.readouterr().err
