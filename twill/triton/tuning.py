# pyright: reportMissingImports=false, reportUnknownMemberType=false
"""What Triton's tuner is about to do with the configurations of a kernel.

The tuner compiles, launches and times its configurations one after the other, so that each would wait for its
own compilation, search and build. Known ahead, they are compiled and built side by side. It measures them
again for each key, such as other sizes, where the trial of Twill's kernel on the sizes before may mislead.
Wrapped are two methods of `Autotuner` (Triton 3.5 to 3.9): `prune_configs`, which gives the configurations
where nothing is known about a key, and `_bench`, which measures one of them and is not called where the
timings are on disk.
"""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from concurrent.futures import Executor


@dataclass(frozen=True, slots=True)
class Listener:
    """Functions of a `CompiledKernel`."""

    ahead: Callable[[Any], None]
    """It is going to be launched; others may be first."""
    measured: Callable[[Any], None]
    """Its next launches are measured, for sizes that may be new."""


def wrap(listener: Listener) -> Callable[[], None]:
    """Gives a function that undoes it."""
    from triton.runtime.autotuner import Autotuner

    kind: Any = Autotuner
    prune, bench = kind.prune_configs, kind._bench
    chosen: WeakKeyDictionary[Any, Sequence[Any]] = WeakKeyDictionary()
    kernels: WeakKeyDictionary[Any, Mapping[Any, Any]] = WeakKeyDictionary()

    def prune_configs(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        found = prune(tuner, *args, **kwargs)
        chosen[tuner] = tuple(found)
        return found

    def bench_one(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        if tuner in chosen:
            kernels[tuner] = _ahead(listener, tuner, chosen.pop(tuner), args, meta)
        if config in (made := kernels.get(tuner, {})):
            with suppress(Exception):
                listener.measured(made[config])
        return bench(tuner, *args, config=config, **meta)

    kind.prune_configs, kind._bench = prune_configs, bench_one

    def undo() -> None:
        if kind._bench is bench_one:
            kind.prune_configs, kind._bench = prune, bench

    return undo


def _ahead(
    listener: Listener, tuner: Any, configs: Iterable[Any], args: Sequence[Any], meta: Mapping[str, Any]
) -> Mapping[Any, Any]:
    """The kernel of each configuration; without those that can not be compiled, whose failure is Triton's to
    handle when it measures them."""
    from concurrent.futures import ThreadPoolExecutor  # a program without a tuner starts no threads

    started, found = dict[Any, Any](), dict[Any, Any]()
    threads = ThreadPoolExecutor(os.cpu_count())
    try:
        with _compiling_in(threads):
            for one in configs:
                with suppress(Exception):
                    started[one] = _compiled(tuner, one, args, meta)
        for one, kernel in started.items():
            with suppress(Exception):
                found[one] = kernel.result() if hasattr(kernel, "result") else kernel
                listener.ahead(found[one])
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return found


@contextmanager
def _compiling_in(threads: "Executor") -> Generator[None]:
    """Inside, a compilation by Triton gives a `FutureKernel` at once. Triton's mode for that waits for all
    kernels when it is left, and older versions stop at the first that fails; here each is waited for by
    itself."""
    try:
        from triton.runtime._async_compile import AsyncCompileMode, active_mode
    except ImportError:  # private to Triton: without it, kernels are compiled one after the other
        yield
        return
    if active_mode.get() is not None:
        yield
        return
    before = active_mode.set(AsyncCompileMode(threads))
    try:
        yield
    finally:
        active_mode.reset(before)


def _compiled(tuner: Any, config: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> Any:
    """The kernel of one configuration, not loaded and not launched. Its hook runs first, as before each
    launch: it may set the block shapes of descriptors."""
    options = {**meta, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook({**tuner.nargs, **options})
    return tuner.fn.run(*args, **{**options, "warmup": True})
