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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

import triton

import twill.triton
from tests.triton_launch.fakes import HALF, Driver, Tensor, forget
from twill.diagnostics import TwillError
from twill.extract.frontend.kernel_files import load_file
from twill.launch.folders import stamp
from twill.launch.manifest import Manifest, write
from twill.triton import session, slots, store, worker, workers
from twill.triton.callee import Callee
from twill.triton.request import Request
from twill.triton.store import Outcome, Trial


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "twill"


def test_what_is_kept_is_found(folder: Path, tmp_path: Path) -> None:
    store.keep("k", Outcome(refused="too large"))
    assert store.find("k") == Outcome(refused="too large")
    built = Outcome(Callee(str(tmp_path / "built"), "", "gemm", (("a", "*f16"),), (("c", "a", True),), "8"))
    store.keep("k", built)
    assert store.find("k") is None
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "kernel.so").touch()
    assert store.find("k") == built


def test_what_may_change_is_not_kept() -> None:
    store.keep("k", Outcome(refused="nvcc is not on the PATH", lasting=False))
    assert store.find("k") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"colour": "red"}', '{"callee": 1}', '{"callee": {"name": "a"}}']
)
def test_damaged_files_count_as_missing(folder: Path, text: str) -> None:
    path = folder / "triton" / "k" / "outcome.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert store.find("k") is None


def test_a_library_that_was_changed_is_compared_with_its_source_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy with another date once; what is not of its source is not loaded."""
    monkeypatch.setattr(Callee, "function", lambda callee: callee.name)
    (tmp_path / "kernel.so").touch()
    known, compared = Callee(str(tmp_path), "0 0", "gemm", (), (), "8"), list[str]()

    def of(folder: str) -> Callee:
        compared.append(folder)
        return replace(known, stamp=stamp(Path(folder, "kernel.so")))

    monkeypatch.setattr(session, "of", of)
    store.keep("k", Outcome(known, forms=2))
    found, _ = session.loaded("k", known)
    again = store.find("k")
    assert again == Outcome(found, forms=2)
    session.loaded("k", found)
    assert compared == [str(tmp_path)]


def test_a_library_that_is_not_of_its_source_is_refused(folder: Path) -> None:
    manifest = Manifest("gemm", "gemm.ttgir", 384, 240, (), ())
    folder.mkdir()
    for name, text in (("kernel.json", write(manifest)), ("kernel.cu", "new"), ("kernel.so", "old")):
        (folder / name).write_text(text)
    with pytest.raises(TwillError, match="not built of the"):
        session.loaded("k", Callee(str(folder), "0 0", "gemm", (), (), "8"))


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
from pathlib import Path

import triton
from tests.triton_launch import kernels

before, folder = set(sys.modules), Path(sys.argv[1])
import twill.triton
from tests.triton_launch.fakes import HALF, Driver, Tensor
from twill.triton import session, store
from twill.triton.callee import Callee
from twill.launch.folders import stamp

class Array(Tensor):
    nbytes = 64

    def is_contiguous(self):
        return True

launches = []
session.gpu, session.capturing = lambda: "NVIDIA H200", lambda stream: False
Callee._library = lambda callee: {"dot_launch": lambda *values: launches.append(values) or 0}
triton.runtime.driver.set_active(Driver())
twill.triton.install(compile="cached")
if not (folder / "kernel.so").exists():
    (folder / "kernel.so").touch()
    arguments = (("a", "*f16"), ("b", "*f16"), ("c", "*f16"), ("stride", "i32"), ("scale", "f32"))
    built = Callee(str(folder), stamp(folder / "kernel.so"), "dot", arguments, (("c", "a", False),), "8")
    store.find = lambda key: store.keep(key, store.Outcome(built))
    store.find_trial = lambda *name: None
    from contextlib import nullcontext
    from twill.triton import trial
    trial.torch_beside = lambda *_: nullcontext(lambda twill: store.Trial(None, 2.0, 1.0))
kernels.dot[(3,)](*(Array(HALF, address) for address in (256, 512, 1024)), 64, 2.0, BLOCK=16)
assert [row.reason for row in twill.triton.report()] == ["verified"], twill.triton.report()
imported = {name for name in set(sys.modules) - before if not name.startswith("tests.")}
others = {*sys.stdlib_module_names, "triton"}
print(*sorted(name for name in imported if name.partition(".")[0] not in others))
sys.stdout.flush()
import os
os._exit(0)  # nothing asks the stand-in for a driver to unload
"""

OF_LAUNCHES = {
    *("twill", "twill.diagnostics", "twill.costs", "twill.costs.machine_files"),
    *("twill.extract", "twill.extract.frontend", "twill.extract.frontend.options"),
    *("twill.launch", "twill.launch.c_types", "twill.launch.folders"),
    "twill.triton",
    *(f"twill.triton.{name}" for name in ("arguments", "callee", "hooks", "report", "request", "session")),
    *(f"twill.triton.{name}" for name in ("settings", "store", "tuning")),
}
"""All that a program imports whose kernels were built and tried before: no manifest's reader, no builder, no
machine, no trial; of other packages nothing."""


def test_a_program_whose_kernels_are_there_imports_little(tmp_path: Path) -> None:
    """Each module, dataclass and regular expression of Twill counts at the start of such a program."""
    imported = list[set[str]]()
    for _ in range(2):
        command = [sys.executable, "-c", LAUNCHING, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        imported.append(set(done.stdout.split()))
    assert imported[1] - OF_LAUNCHES == set()
    assert "twill.emit.files" in imported[0]


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
