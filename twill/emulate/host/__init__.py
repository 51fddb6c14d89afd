"""The host side of a generated kernel, run with no GPU: its launcher is called, and what it would launch is
given back.

Takes a .cu file; compiles it with nvcc for PTX alone, together with a runtime (`runtime.cpp`) whose launches
come here. Raises TwillError where nvcc is missing or fails, or the launcher gives an error.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twill.diagnostics import TwillError
from twill.emulate.module import Module, load
from twill.launch.load import ADVICE

_RUNTIME = Path(__file__).with_name("runtime.cpp")
LIBRARY = "host.so"


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel as a launcher launches it."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    """Bytes of dynamic shared memory."""
    most_shared: int
    """That the launcher has asked for."""
    arguments: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """A compiled file: its kernels as PTX, and its host code."""

    module: Module
    library: ctypes.CDLL

    def call(
        self,
        function: str,
        arguments: Sequence[Any],
        processors: int = 1,
        memory: tuple[int, int] = (0, 0),
        fill: Callable[[int, int, int], None] | None = None,
    ) -> list[Launched]:
        """Calls a C function that gives 0 where all is well; what it launched. `processors` is the number of
        multiprocessors it finds, `memory` the address and the bytes that it may allocate on the device.
        `fill` sets bytes there (address, value, count) before what it launches is executed."""
        library, found = self.library, list[Launched]()

        def launched(*launch: Any) -> None:
            found.append(self._launched(*launch))

        callback, filled = _CALLBACK(launched), _FILL(fill or _nothing)
        library.twill_emulate(callback, processors)
        library.twill_emulate_fill(filled)
        library.twill_emulate_memory(ctypes.c_void_p(memory[0]), ctypes.c_size_t(memory[1]))
        status = library[function](*arguments)
        if status:
            raise TwillError(f"{function} gives the error {status}", help=ADVICE.get(status))
        return found

    def _launched(self, name: bytes, extents: Any, shared: int, most: int, arguments: Any) -> Launched:
        kernel = name.decode()
        parameters = self.module.text.functions[kernel].parameters
        values = tuple(ctypes.string_at(arguments[i], one.bytes) for i, one in enumerate(parameters))
        x, y, z, bx, by, bz, cx, cy, cz = extents[:9]
        return Launched(kernel, (x, y, z), (bx, by, bz), (cx, cy, cz), shared, most, values)


def _nothing(address: int, value: int, count: int) -> None:
    """Memory that no emulated launch reads."""


_FILL: Callable[..., Any] = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)
_CALLBACK: Callable[..., Any] = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_void_p),
)


def compiled(source: Path, folder: Path, include: Sequence[Path] = (), arch: str = "90a") -> Host:
    """Compiles a .cu file into `folder`. Raises TwillError."""
    return loaded(written(source, folder, include, arch), folder, str(source.with_suffix(".ptx")))


def linked(kept: Path, folder: Path) -> Host:
    """The same from the kernel.ptx and kernel.o that nvcc has left in `kept`; links into `folder`. Raises
    TwillError."""
    ptx = kept / "kernel.ptx"
    _link([str(kept / "kernel.o")], folder, str(ptx))
    return loaded(ptx, folder, str(ptx))


def written(source: Path, folder: Path, include: Sequence[Path] = (), arch: str = "90a") -> Path:
    """Writes the PTX of a .cu file and the library of its host code into `folder`; where the PTX is. The
    option -O0 is for the host code alone. Raises TwillError."""
    if shutil.which("nvcc") is None:
        raise TwillError(
            "nvcc is not on the PATH", help="CUDA 12.4 or newer compiles a .cu file to PTX; or pass the PTX"
        )
    target = ["-O0", "-lineinfo", f"-gencode=arch=compute_{arch},code=compute_{arch}"]
    places = [f"-I{path.resolve()}" for path in include]
    made = [*target, *places, "-keep", "-keep-dir", str(folder), str(source.resolve())]
    _link(made, folder, str(source))
    return folder / f"{source.stem}.ptx"


def loaded(ptx: Path, folder: Path, name: str) -> Host:
    """Some PTX with the library in `folder`; `name` is the file that messages give for the PTX."""
    return Host(load(ptx.read_text(), name), ctypes.CDLL(str(folder / LIBRARY)))


def _link(made: Sequence[str], folder: Path, name: str) -> None:
    """Links the runtime and what nvcc makes of its arguments `made`, from the file `name`."""
    library = ["-cudart", "none", "-shared", "-Xcompiler", "-fPIC", "-Xlinker", "-Bsymbolic"]
    command = ["nvcc", "-std=c++17", *library, *made, str(_RUNTIME), "-o", str(folder / LIBRARY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise TwillError(f"nvcc can not compile {name}:\n{done.stderr.strip()}")
