"""`twill codegen` and `twill bench` on a machine without a GPU, and `twill.compile` of what is no kernel."""

import ctypes
import json
import os
import re
import shutil
from pathlib import Path

import pytest

import twill
from twill import pipeline
from twill.cli import run
from twill.diagnostics import TwillError
from twill.emit import files
from twill.emit.files import RECORD
from twill.launch.build import build, nvcc
from twill.launch.load import load
from twill.launch.manifest import read
from twill.warp.lower import PASSES

GEMM, SCHEDULE = "examples/ttgir/gemm.sm90.ttgir", "tests/kernels/schedules/gemm.for.0.json"
KEPT = ("--schedule", SCHEDULE, "--keep-schedules")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gemm")
    assert run(["codegen", GEMM, "--arch", "sm90", *KEPT, "--no-build", "--out", str(out)]) == 0
    return out


def test_a_kernel_is_written_from_a_schedule_at_hand(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} - {RECORD} == {
        *("kernel.cu", "kernel.json", "kernel.ttgir", "warps.txt", "trace.json", "gemm.for.0.schedule.json"),
        "report.html",
    }
    assert "<h3>CUDA kernel.cu</h3>" in (folder / "report.html").read_text()
    assert "gemm_launch(__half* a" in (folder / "kernel.cu").read_text()
    described = read((folder / "kernel.json").read_text(), "kernel.json")
    assert [(one.name, one.type, one.divisible) for one in described.arguments][2:4] == [
        ("c", "*f16", 16),
        ("M", "i32", 16),
    ]
    assert [(loop.path, loop.scheduled) for loop in described.loops] == [("gemm/for.0", 1024)]
    assert json.loads((folder / "gemm.for.0.schedule.json").read_text())["interval"] == 1024


def test_what_was_written_can_be_used_again(folder: Path, tmp_path: Path) -> None:
    written = str(folder / "gemm.for.0.schedule.json")
    again = ["--schedule", written, "--keep-schedules", "--no-build", "--out", str(tmp_path)]
    assert run(["codegen", str(folder / "kernel.ttgir"), "--arch", "sm90", *again]) == 0
    first, second = ((place / "kernel.cu").read_text().split("#include")[1:] for place in (folder, tmp_path))
    assert "".join(second).replace(f"{folder}/kernel.ttgir", GEMM) == "".join(first)


def test_a_schedule_of_another_loop_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text(
        Path("tests/kernels/schedules/gemm_reduction.for.0.json")
        .read_text()
        .replace("gemm_reduction/", "gemm/")
    )
    assert run(["codegen", GEMM, "--schedule", str(other), "--no-build", "--out", str(tmp_path)]) == 2
    assert "belongs to another loop" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["codegen", "simulate"])
def test_a_schedule_of_another_kernel_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ["--schedule", "tests/kernels/schedules/fa_fwd.for.0.json", "--schedule", SCHEDULE]
    assert run([command, GEMM, *other, "--out", str(tmp_path)]) == 2
    assert "the given schedule is for fa_fwd/for.0, and the kernel has gemm/for.0" in capsys.readouterr().err
    assert run([command, GEMM, "--schedule", SCHEDULE, "--schedule", SCHEDULE, "--out", str(tmp_path)]) == 2
    assert "is a second schedule for gemm/for.0" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_build_without_nvcc_is_refused_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nvcc.cache_clear()
    assert run(["codegen", GEMM, "--build", "--out", str(tmp_path / "out")]) == 2
    assert "nvcc is not on the PATH" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_launch_without_a_gpu_fails_with_the_text_of_cuda(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shutil.copytree(folder, tmp_path / "gemm")
    build(tmp_path / "gemm")
    pointers = [ctypes.c_void_p(4096)] * 3
    made = load(tmp_path / "gemm")
    status = made.launch(*pointers, 128, 256, 64, 1, 1, 1, None)
    assert status
    assert made.runtime
    assert re.match(r"CUDA error \d+, \w+.*\w{3}", made.runtime.text(status))
    assert made.runtime.device(4096) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_compiles_the_kernel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PTX that is executed is the library's; line numbers name the source where the user finds it."""
    calls, tools, out = tmp_path / "calls", tmp_path / "bin", tmp_path / "out"
    tools.mkdir()
    (tools / "nvcc").write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {shutil.which("nvcc")} "$@"\n')
    (tools / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert run(["codegen", GEMM, "--arch", "sm90", "--schedule", SCHEDULE, "--out", str(out)]) == 0
    assert sum(line.endswith("kernel.cu") for line in calls.read_text().splitlines()) == 1
    assert load(out).manifest.checked
    assert str(out).encode() in (out / "kernel.so").read_bytes()


def test_the_source_that_nvcc_refuses_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nvcc").write_text('#!/bin/sh\ntest "$1" = --version && echo release 13.0 || exit 1\n')
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    nvcc.cache_clear()
    out = tmp_path / "out"
    assert (
        run(["codegen", GEMM, "--arch", "sm90", "--schedule", SCHEDULE, "--no-check", "--out", str(out)]) == 2
    )
    nvcc.cache_clear()
    assert f"nvcc can not build {out / 'kernel.cu'}" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["kernel.cu"]


def test_a_schedule_that_breaks_a_rule_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, text = tmp_path / "broken.json", Path(SCHEDULE).read_text()
    document = json.loads(text)
    document["interval"] = 1
    broken.write_text(json.dumps(document))
    assert run(["codegen", GEMM, "--schedule", str(broken), "--no-build", "--out", str(tmp_path)]) == 2
    assert "breaks a rule" in capsys.readouterr().err


def test_what_can_not_be_measured(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twill.bench.measure.find_spec", lambda name: None)  # pyright: ignore
    assert run(["bench", GEMM, "--arch", "sm90", "--built", str(folder)]) == 2
    assert "needs PyTorch" in capsys.readouterr().err
    monkeypatch.setattr("twill.bench.measure.ready", lambda arch: None)  # pyright: ignore
    assert run(["bench", GEMM, "--arch", "sm90", "--built", str(folder)]) == 2
    assert "no kernel.so" in capsys.readouterr().err
    assert run(["bench", GEMM, "--arch", "sm90", "--built", str(folder), "--shape", "K"]) == 2
    assert "not of the form NAME=SIZE" in capsys.readouterr().err


@pytest.mark.parametrize("value", [len, 3])
def test_what_is_no_kernel_is_not_compiled(value: object) -> None:
    with pytest.raises(twill.TwillError, match="is no kernel"):
        twill.compile(value)


def test_a_wrapped_kernel_is_refused() -> None:
    triton = pytest.importorskip("triton")
    from examples import kernels

    wrapped = triton.autotune([triton.Config({"BLOCK_M": 128})], key=["M"])(kernels.gemm)  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(twill.TwillError, match="wrapped in Autotuner") as refused:
        twill.compile(wrapped)
    assert ".fn" in (refused.value.help or "")


def test_the_program_after_each_pass_is_written(tmp_path: Path) -> None:
    dump = tmp_path / "passes"
    options = [*KEPT, "--no-build", "--no-check", "--out", str(tmp_path / "build")]
    assert run(["codegen", GEMM, "--arch", "sm90", *options, "--dump", str(dump)]) == 0
    names = [path.name for path in sorted(dump.glob("*.txt"))]
    assert [name.split("-", 1)[1].removesuffix(".txt") for name in names] == [one.name for one in PASSES]
    before, after = ((dump / f"{name}.txt").read_text() for name in ("05-stages", "06-mma-waits"))
    assert "MmaWait" not in before
    assert "MmaWait 1" in after
    assert (dump / names[-1]).read_text() == (tmp_path / "build" / "warps.txt").read_text()


@pytest.mark.parametrize("command", ["codegen", "simulate"])
@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (
            GEMM,
            '"ttg.num-ctas" = 1',
            '"ttg.num-ctas" = 2',
            r"k.ttgir:\d+:\d+: error: .*clusters of 2 thread blocks",
        ),
        (
            GEMM,
            "%13 = arith.truncf %acc_4",
            "%odd = math.hyper %acc_4 : tensor<128x256xf32, #mma>\n    %13 = arith.truncf %odd",
            r"k.ttgir:55:\d+: error: math.hyper",
        ),
        (
            "tests/kernels/ttgir/matmul_e4m3_32.sm90.ttgir",
            "f8E4M3FN",
            "i8",
            "ttng.warp_group_dot of i8 and i8 that adds to f32 can",
        ),
    ],
)
def test_what_no_schedule_helps_is_refused_before_the_search(
    command: str,
    file: str,
    old: str,
    new: str,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = Path(file).read_text()
    assert old in text
    (tmp_path / "k.ttgir").write_text(text.replace(old, new))
    monkeypatch.setattr(pipeline, "solve", None)
    assert run([command, str(tmp_path / "k.ttgir")]) == 2
    assert re.search(complaint, capsys.readouterr().err)


def test_commands_that_share_a_folder_leave_each_other_alone(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    (tmp_path / "notes.html").write_text("the user's")
    assert run(["schedule", GEMM, "--arch", "sm90", *out]) == 0
    drawn = {path.name for path in tmp_path.iterdir()}
    assert {"schedule.json", "timeline.svg", "notes.html"} <= drawn
    command = [
        "codegen",
        GEMM,
        "--schedule",
        str(tmp_path / "schedule.json"),
        "--no-build",
        "--no-check",
        *out,
    ]
    assert run(command) == 0
    assert run(command) == 0
    assert drawn <= {path.name for path in tmp_path.iterdir()}


def test_an_old_library_does_not_stay_beside_a_new_source(folder: Path, tmp_path: Path) -> None:
    """Not the one that `codegen` wrote; and another one is not loaded."""
    shutil.copytree(folder, tmp_path / "k")
    (tmp_path / "k" / "kernel.so").write_bytes(b"twill-source:" + b"0" * 64)
    with pytest.raises(TwillError, match=r"kernel.so is not built of the kernel.cu beside it"):
        load(tmp_path / "k")
    files.record(tmp_path / "k", ["kernel.so"], "codegen")
    again = [
        "codegen",
        GEMM,
        "--arch",
        "sm90",
        "--schedule",
        SCHEDULE,
        "--no-build",
        "--no-check",
        "--out",
        str(tmp_path / "k"),
    ]
    assert run(again) == 0
    assert not (tmp_path / "k" / "kernel.so").exists()


@pytest.mark.parametrize("name", ["x" * 300, "a\nb", "tab\t"])
def test_names_that_can_not_be_are_refused_before_the_search(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "solve", None)
    assert run(["codegen", GEMM, "--out", str(tmp_path / name)]) == 2
    assert "is no name for a folder" in capsys.readouterr().err
