# pyright: reportMissingImports=false
"""Where Twill stands between a program and Triton's launchers.

Triton makes the launcher of a `CompiledKernel` when the kernel is loaded (`_init_handles`), for `@triton.jit`
functions, autotuned ones and Inductor's kernels alike, in Triton 3.5 to 3.9. That method is wrapped: after
it, the session may put a route in the launcher's place. The tuner tells of its configurations ahead
(`tuning`). Inductor's own static launcher, which goes past Triton's, is switched off meanwhile. `remove`
undoes all of it.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from twill.triton import tuning

STATIC = "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"

CompiledKernel: TypeAlias = Any
"""Triton's class of this name; its members have no types."""
Adopt = Callable[[CompiledKernel], None]


class Hooks:
    """In place from its making until `remove`."""

    def __init__(self, adopt: Adopt, listener: tuning.Listener | None = None) -> None:
        from triton.compiler.compiler import CompiledKernel

        self._class: Any = CompiledKernel
        self._original = CompiledKernel._init_handles
        self._undo: list[Callable[[], None]] = []
        self._wrap(adopt)
        if listener is not None:
            self._undo.append(tuning.wrap(listener))
        self._static_launcher_off()
        for kernel in list(loaded(CompiledKernel)):
            adopt(kernel)

    def _wrap(self, adopt: Adopt) -> None:
        original = self._original

        def init_handles(kernel: CompiledKernel) -> None:
            fresh = kernel.module is None
            original(kernel)
            if fresh and kernel.module is not None:
                adopt(kernel)

        self._class._init_handles = init_handles

        def undo() -> None:
            if self._class._init_handles is init_handles:
                self._class._init_handles = original

        self._undo.append(undo)

    def _static_launcher_off(self) -> None:
        """Both for an Inductor that is imported already, and for one that is imported later or in a worker
        process."""
        before = os.environ.get(STATIC)
        os.environ[STATIC] = "0"
        self._undo.append(lambda: _set_environment(STATIC, before))
        config: Any = sys.modules.get("torch._inductor.config")
        if config is not None and hasattr(config, "use_static_cuda_launcher"):
            was = config.use_static_cuda_launcher
            config.use_static_cuda_launcher = False
            self._undo.append(lambda: setattr(config, "use_static_cuda_launcher", was))

    def remove(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


def loaded(kind: type) -> Iterator[Any]:
    """Kernels that have been launched before: none where Triton has made no driver yet, which loads them. To
    look for them among all objects of a program takes as long as half of the rest of `install`."""
    from triton.runtime.driver import driver

    if getattr(driver, "_active", driver) is None:
        return iter(())
    found = (thing for thing in gc.get_objects() if type(thing) is kind)
    return (
        kernel for kernel in found if getattr(kernel, "_run", None) is not None and kernel.module is not None
    )


def _set_environment(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
