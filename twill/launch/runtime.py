"""The CUDA runtime inside a built kernel's library: what `runtime/host.cuh` exports beside the launcher."""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from twill.diagnostics import TwillError


@dataclass(frozen=True, slots=True, eq=False)
class Runtime:
    """Functions of one loaded library. A library without them (made by an older Twill) gives no texts and no
    devices."""

    library: Any
    """A `ctypes.CDLL`."""

    def text(self, status: int) -> str:
        """CUDA's name and description of an error."""
        function = getattr(self.library, "twill_error_text", None)
        if function is None:
            return f"CUDA error {status}"
        function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_int]
        return f"CUDA error {status}, {function(status).decode()}"

    def device(self, address: int) -> int | None:
        """The GPU in whose memory an address is; None where CUDA does not say."""
        function = getattr(self.library, "twill_device_of", None)
        if function is None:
            return None
        function.argtypes = [ctypes.c_void_p]
        found = int(function(address))
        return found if found >= 0 else None

    @contextmanager
    def on(self, device: int | None) -> Generator[None]:
        """Makes a GPU the thread's current one while the block lasts. Raises TwillError where that fails."""
        function = getattr(self.library, "twill_set_device", None)
        if function is None or device is None:
            yield
            return
        before = ctypes.c_int(0)
        status = int(function(ctypes.c_int(device), ctypes.byref(before)))
        if status:
            raise TwillError(
                f"GPU {device} can not be used: {self.text(status)}", help="`twill doctor` shows the GPU"
            )
        try:
            yield
        finally:
            function(before, ctypes.byref(ctypes.c_int(0)))
