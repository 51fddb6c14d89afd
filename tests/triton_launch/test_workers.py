# pyright: basic, reportMissingImports=false
"""The process that builds a kernel, the folder that it leaves, and programs that are started with Twill
switched on."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

import triton

import twill.triton
from tests.triton_launch.fakes import HALF, Driver, Tensor, forget
from twill.extract.frontend.kernel_files import load_file
from twill.triton import session, slots, store, worker, workers
from twill.triton.request import Request
from twill.triton.store import Outcome, Trial


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "twill"


def test_what_is_kept_is_found(folder: Path, tmp_path: Path) -> None:
    store.keep("k", Outcome(refused="too large"))
    assert store.find("k") == Outcome(refused="too large")
    store.keep("k", Outcome(folder=str(tmp_path / "built")))
    assert store.find("k") is None
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "kernel.so").touch()
    assert store.find("k") == Outcome(folder=str(tmp_path / "built"))


def test_what_may_change_is_not_kept() -> None:
    store.keep("k", Outcome(refused="nvcc is not on the PATH", lasting=False))
    assert store.find("k") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"colour": "red"}'])
def test_damaged_files_count_as_missing(folder: Path, text: str) -> None:
    path = folder / "triton" / "k" / "outcome.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert store.find("k") is None


def test_trials_are_kept_by_gpu() -> None:
    store.keep_trial("k", "NVIDIA H200", Trial(None, 2.0, 1.0))
    assert store.find_trial("k", "NVIDIA H200") == Trial(None, 2.0, 1.0)
    assert store.find_trial("k", "NVIDIA H100 80GB HBM3") is None


def test_one_worker_builds_and_the_others_take_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def slow(path: Path, *_: Any) -> Outcome:
        made.append(path.name)
        begun.set()
        go.wait(10)
        return Outcome(refused="once")

    monkeypatch.setattr(worker, "made", slow)
    results: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda: results.append(worker.work("k", Path("a.ttir"), None, 1.0)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    begun.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert (made, results) == (["a.ttir"], [Outcome(refused="once")] * 3)


def test_a_launch_waits_for_the_build_that_was_started_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    go = threading.Event()

    def worked(request: Any, key: str, *_: Any) -> Outcome:
        asked.append(key)
        go.wait(10)
        return Outcome(refused=f"{key} is refused")

    monkeypatch.setattr(workers, "_worked", worked)
    request = Request("gemm", "", (), "", "sm90", {})
    for key in ("a", "a", "b"):
        workers.begin(request, key, twill.triton.Settings())
    threading.Timer(0.2, go.set).start()
    assert workers.outcome(request, "a", twill.triton.Settings(), None) == Outcome(refused="a is refused")
    assert workers.outcome(request, "b", twill.triton.Settings(), None) == Outcome(refused="b is refused")
    assert sorted({*asked}) == ["a", "b"]


def test_a_launch_waits_no_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(workers, "_worked", lambda *_: (go.wait(10), Outcome(refused="no"))[1])
    request = Request("gemm", "", (), "", "sm90", {})
    build = workers.outcome(request, "d", twill.triton.Settings(), 0.05)
    assert not isinstance(build, Outcome)
    go.set()
    assert build.result(10) == Outcome(refused="no")
    assert workers.ended(build) == Outcome(refused="no")


def test_more_builds_run_while_a_launch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One beside the program; three as soon as it waits, and one again for those that begin after that."""
    monkeypatch.setattr(slots, "WHILE_WAITING", 3)
    monkeypatch.setattr(slots, "BESIDE", 1)
    at_work, go = list[str](), {key: threading.Event() for key in "efghi"}

    def worked(request: Any, key: str, *_: Any) -> Outcome:
        at_work.append(key)
        go[key].wait(10)
        return Outcome(refused=key)

    def wait_for(count: int) -> None:
        until = time.monotonic() + 10
        while len(at_work) < count and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)

    monkeypatch.setattr(workers, "_worked", worked)
    request, settings = Request("gemm", "", (), "", "sm90", {}), twill.triton.Settings()
    builds = {key: workers.begin(request, key, settings) for key in go}
    wait_for(1)
    assert len(at_work) == 1
    first = at_work[0]
    waiting = threading.Thread(target=workers.outcome, args=(request, first, settings, None))
    waiting.start()
    wait_for(3)
    assert len(at_work) == 3
    go[first].set()
    waiting.join(10)
    wait_for(4)
    begun = len(at_work)  # the first may have made room for a fourth before the launch was told
    assert begun <= 4
    go[at_work[1]].set()
    builds[at_work[1]].result(10)
    time.sleep(0.1)
    assert len(at_work) == begun
    for one in go.values():
        one.set()
    assert {builds[key].result(10).refused for key in go} == {*go}


def test_a_worker_gives_way_to_the_program() -> None:
    """Its niceness counts beside the program, not only in its own session, where Linux groups by sessions."""
    script = (
        "import os; from twill.triton.worker import GROUP, give_way; give_way();"
        " print(os.nice(0), GROUP.read_text().split()[-1] if GROUP.exists() else 10)"
    )
    before = os.nice(0)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout.split() == [str(min(19, before + 10)), "10"]


def test_an_error_of_a_build_ahead_reaches_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def worked(request: Any, key: str, *_: Any) -> Outcome:
        go.wait(10)
        raise OSError("no more processes")

    monkeypatch.setattr(workers, "_worked", worked)
    request = Request("gemm", "", (), "", "sm90", {})
    workers.begin(request, "c", twill.triton.Settings())
    threading.Timer(0.2, go.set).start()
    with pytest.raises(OSError, match="no more processes"):
        workers.outcome(request, "c", twill.triton.Settings(), None)


# --- with the worker itself -------------------------------------------------------------------------------


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`gemm` of the examples, launched on a stand-in for a GPU."""
    driver = Driver()
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    monkeypatch.setattr(session, "capturing", lambda stream: False)
    kernel = load_file("examples/kernels.py").gemm
    a, b, c = (Tensor(HALF, address) for address in (256, 512, 1024))

    def launch(**settings: Any) -> Any:
        twill.triton.install(measure=False, **settings)
        kernel[(4,)](a, b, c, 1024, 1024, 512, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8)
        (row,) = twill.triton.report()
        return row

    yield launch
    twill.triton.uninstall()
    forget(kernel)


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_twill_takes_the_same_kernel_whatever_the_number_of_stages(arch: str) -> None:
    """So that it may be left out of a kernel's name."""
    from twill.extract.frontend.triton import capture

    found = [capture("examples/kernels.py", "fa_fwd", arch, {"num_stages": stages}) for stages in (1, 4)]
    assert found[0] == found[1]


def test_without_nvcc_the_kernel_is_tritons(launches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    row = launches()
    assert (row.choice, row.reason) == ("triton", "nvcc is not on the PATH")


def test_a_worker_that_dies_is_a_reason(launches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert "ended with status 1" in launches().reason


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_a_kernel_is_built_loaded_and_launched(
    launches: Any, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With no GPU the launch itself fails, and Triton's kernel takes over."""
    with caplog.at_level("INFO", "twill.triton"):
        row = launches(patience=None)
    assert any("as the schedule says, 1024 cycles per iteration" in said for said in caplog.messages)
    assert "the launch of Twill's kernel failed with CUDA error" in row.reason
    assert sorted(path.name for path in next((folder / "triton").iterdir()).iterdir()) == [
        "gemm.json",
        "gemm.ttir",
        "lock",
        "outcome.json",
    ]


# --- programs ---------------------------------------------------------------------------------------------

PROGRAM = """
import sys
assert "triton" not in sys.modules
import triton
from triton.compiler.compiler import CompiledKernel
print(CompiledKernel._init_handles.__qualname__)
sys.exit(3)
"""


@pytest.mark.parametrize("program", [[sys.executable, "program.py"], ["program.py"]])
def test_twill_run(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-c",
        "from twill.cli import main; main()",
        "run",
        "--verify",
        "--",
        *program,
    ]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (3, "Hooks._wrap.<locals>.init_handles"), done.stderr


LAUNCHING = """
import sys
import twill.triton
from twill.launch.manifest import Manifest, read, write
from twill.triton import request, session, workers
request._machine(None, "sm90")
read(write(Manifest("gemm", "gemm.ttgir", 384, 240, (), ())), "kernel.json")
compiler = ("numpy", "twill.extract.reader", "twill.ops", "twill.warp", "twill.generation")
print([name for name in sys.modules if name.startswith(compiler)])
"""


def test_a_program_that_launches_does_not_import_the_compiler() -> None:
    """It reads what was built: NumPy and the reader of TTGIR take longer than the rest of Twill."""
    done = subprocess.run([sys.executable, "-c", LAUNCHING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("0", None),
        ("", None),
        ("1", twill.triton.Settings()),
        ("sideways", None),
        ("patience=2.5", twill.triton.Settings(patience=2.5)),
        ("1,patience=long", None),
        ("patience=-1", None),
    ],
)
def test_the_variable(text: str, settings: Any) -> None:
    from twill.triton.settings import from_environment

    assert from_environment(text) == settings


def test_the_variable_with_several_words() -> None:
    from twill.triton.settings import from_environment

    assert from_environment("background, verify,trust") == twill.triton.Settings(
        "background", verify=True, measure=False
    )


def test_a_terminal_shows_what_a_launch_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("gemm", "", (), "", "sm90", {})
    monkeypatch.setattr(workers, "_worked", lambda *_: Outcome(refused="no"))
    monkeypatch.setenv("TERM", "xterm")
    for terminal, shown in ((False, False), (True, True)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        workers.outcome(request, "k", twill.triton.Settings(), 60.0)
        assert ("builds gemm" in capsys.readouterr().err) == shown


def test_the_log_says_that_a_launch_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = Request("gemm", "", (), "", "sm90", {})
    monkeypatch.setattr(workers, "SILENCE", 0.05)
    for seconds, said in ((0.0, False), (0.5, True)):
        monkeypatch.setattr(
            workers, "_worked", lambda *_, it=seconds: (time.sleep(it), Outcome(refused="no"))[1]
        )
        workers.outcome(request, "k", twill.triton.Settings(), 60.0)
        assert any("gemm: its first launch waits" in one.message for one in caplog.records) == said
