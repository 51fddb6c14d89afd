"""A GPU that is none: Triton's driver and tensors as far as launching needs them, and a Twill kernel that
only notes its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from triton.backends.compiler import GPUTarget

from twill.triton.callee import Callee


@dataclass
class Launched:
    """What reached a launcher."""

    who: str
    grid: tuple[int, int, int]
    values: tuple[Any, ...]


@dataclass
class Utils:
    """Loading of binaries."""

    def load_binary(self, *_: Any) -> tuple[Any, ...]:
        return object(), object(), 32, 0, 1024

    def unload_module(self, _: Any) -> None:
        pass

    def get_device_properties(self, _: int) -> Mapping[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132}


class Driver:
    """As `triton.runtime.driver.active`: a Hopper GPU whose launches end in a list."""

    def __init__(self, arch: int = 90) -> None:
        self.utils = Utils()
        self.arch = arch
        self.device = 0
        self.launches: list[Launched] = []

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, _: int) -> int:
        return 7

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        """Triton's launcher of one kernel."""

        def launch(x: int, y: int, z: int, stream: int, *rest: Any) -> None:
            assert stream == 7
            self.launches.append(Launched("triton", (x, y, z), rest[5:]))

        return launch


@dataclass
class Tensor:
    """As much of a tensor as Triton looks at."""

    dtype: Any
    address: int = 256

    def data_ptr(self) -> int:
        return self.address


class dtype:  # noqa: N801 (PyTorch's name)
    """Prints as PyTorch's types do."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and other.name == self.name


HALF, FLOAT = dtype("float16", 2), dtype("float32", 4)


class Described(Callee):
    """A kernel without a library."""

    def text(self, status: int) -> str:
        return f"CUDA error {status}"


def callee(folder: str, arguments: tuple[tuple[str, str], ...] = (), apart: Any = ()) -> Callee:
    """Of a kernel with one loop."""
    return Described(folder, "", "gemm", arguments, apart, "1024")


@dataclass
class Built:
    """Kernels that Twill is said to have built, by folder."""

    driver: Driver
    arguments: tuple[tuple[str, str], ...]
    status: int = 0
    loaded: list[str] = field(default_factory=list[str])
    ahead: list[Any] = field(default_factory=list[Any])
    """What was to be built ahead of its launch."""
    apart: tuple[tuple[str, str, bool], ...] = ()
    """Arguments that must not share memory."""

    def load(self, key: str, known: Callee) -> tuple[Callee, Callable[..., int]]:
        self.loaded.append(known.folder)

        def launch(*values: Any) -> int:
            *passed, x, y, z, stream = values
            assert stream == 7
            if not self.status:
                self.driver.launches.append(Launched("twill", (x, y, z), tuple(passed)))
            return self.status

        return replace(callee(known.folder, self.arguments, self.apart), form=known.form), launch


def forget(kernel: Any) -> None:
    """Makes a kernel compile anew, as in another process; no driver is called when the old one is freed."""
    for compiled, *_ in kernel.device_caches.values():
        for one in compiled.values():
            one.module = None
    kernel.device_caches.clear()
