# pyright: reportMissingImports=false, reportUnknownMemberType=false
"""Twill's kernels under unchanged Triton programs.

    import twill.triton

    twill.triton.install()           # from now on a launch runs Twill's kernel if there is one, else Triton's
    print(twill.triton.report())     # which, and why

`@twill.jit` does the same for one kernel. See docs/triton.md.
"""

from functools import partial
from typing import Any
from weakref import WeakSet

from twill.triton.hooks import Hooks
from twill.triton.report import Report, Row
from twill.triton.request import CompiledKernel
from twill.triton.session import Session
from twill.triton.settings import Compile, Settings
from twill.triton.tuning import Listener

__all__ = ["Report", "Row", "Settings", "install", "jit", "report", "uninstall"]

_session: Session | None = None
_hooks: Hooks | None = None
_everything = False
"""Whether kernels without `@twill.jit` are meant too."""
_marked: WeakSet[Any] = WeakSet()
"""Functions under `@twill.jit`."""


def install(
    *,
    compile: Compile = "now",
    verify: bool = False,
    measure: bool = True,
    machine: str | None = None,
    time_limit: float = 20.0,
    subtile: int | None = None,
    patience: float | None = 60.0,
) -> None:
    """Send every launch of a Triton kernel to Twill's kernel where there is one.

    `compile`: schedule and build a new kernel at its first launch (`now`), beside the program while Triton's
    runs (`background`), or not at all (`cached`: only what was built before). `verify`: use no kernel whose
    first launch was not compared with Triton's. `measure`: time both at the first launch and keep the faster
    one. `machine`, `time_limit`, `subtile` (None is auto): as in `twill schedule`. `patience`: seconds that
    all launches together wait at most for builds; after that Triton's kernels run until Twill's are there
    (None: each launch waits as long as it takes). Called again, it replaces the settings; kernels that are
    decided already stay so. Raises ImportError where Triton is missing.
    """
    install_with(Settings(compile, verify, measure, machine, time_limit, subtile, patience))


def install_with(settings: Settings) -> None:
    """The same with settings at hand."""
    global _everything
    _everything = True
    start(settings)


def start(settings: Settings) -> None:
    """Puts the hooks in place, or changes the settings of a session."""
    global _session, _hooks
    if _session is None:
        _session = Session(settings)
    _session.settings = settings
    if _hooks is not None:
        _hooks.remove()
    _hooks = Hooks(_adopt, Listener(_ahead, _measured))


def _adopt(kernel: CompiledKernel) -> None:
    if _session is not None and _meant(kernel):
        _session.adopt(kernel)


def _ahead(kernel: CompiledKernel) -> None:
    if _session is not None and _meant(kernel):
        _session.ahead(kernel)


def _measured(kernel: CompiledKernel) -> None:
    if _session is not None and _meant(kernel):
        _session.measured(kernel)


def _meant(kernel: CompiledKernel) -> bool:
    return _everything or getattr(kernel.src, "fn", None) in _marked


def uninstall() -> None:
    """Triton as it was: its launchers, its methods, Inductor's settings. Kernels on disk stay."""
    global _session, _hooks, _everything
    if _hooks is not None:
        _hooks.remove()
    if _session is not None:
        _session.close()
    _session, _hooks, _everything = None, None, False


def report() -> Report:
    """Every kernel launched since `install`: whose runs, why, its interval, its speed where it was
    measured."""
    return _session.report() if _session is not None else Report(())


def jit(function: Any = None, **options: Any) -> Any:
    """`@triton.jit` for a kernel whose launches go to Twill's kernel where there is one; `options` are those
    of `triton.jit`.

    Takes a Python function, or a kernel under `@triton.jit`, `@triton.autotune` or `@triton.heuristics`.
    """
    import triton

    if function is None:
        return partial(jit, **options)
    kernel = (
        function if hasattr(function, "fn") and hasattr(function, "run") else triton.jit(function, **options)
    )
    inner: Any = kernel
    while not hasattr(inner, "params"):
        inner = inner.fn
    _marked.add(inner)
    if _session is None:
        start(Settings())
    return kernel
