# pyright: reportMissingImports=false, reportUnknownMemberType=false
"""What Triton's tuner is about to do with the configurations of a kernel.

The tuner compiles, launches and times its configurations one after the other, so that each would wait for its
own search and build. Known ahead, they are built side by side. It measures them again for each key, such as
other sizes, where the trial of Twill's kernel on the sizes before may mislead. Wrapped are two methods of
`Autotuner` (Triton 3.5 to 3.9): `prune_configs`, which gives the configurations where nothing is known about
a key, and `_bench`, which measures one of them and is not called where the timings are on disk.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary


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
    found = dict[Any, Any]()
    for one in configs:
        with suppress(Exception):
            found[one] = _compiled(tuner, one, args, meta)
            listener.ahead(found[one])
    return found


def _compiled(tuner: Any, config: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> Any:
    """The kernel of one configuration, not loaded and not launched. Its hook runs first, as before each
    launch: it may set the block shapes of descriptors."""
    options = {**meta, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook({**tuner.nargs, **options})
    return tuner.fn.run(*args, **{**options, "warmup": True})
