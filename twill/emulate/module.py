"""Kernels of PTX text, launched on NumPy arrays.

    module = load(ptx)
    module.kernel("gemm").launch((4, 2, 1), [a, b, c, 512, 512, 256], shared=98304)

Arrays are passed as pointers to memory that the machine shares with them; tensor maps as `TensorMap` objects
whose address is `Place` of an array. Raises TwillError: HazardError for what a kernel must not do,
UnknownError for an instruction that is not executed.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from twill.diagnostics import TwillError
from twill.emulate.decode import Code, decode, offsets, three
from twill.emulate.faults import Fault, located
from twill.emulate.machine.cta import Cluster, Launch, Meter
from twill.emulate.memory.clocks import Array
from twill.emulate.memory.device import Device
from twill.emulate.opcodes import MODULES as MODULES  # fills the table of instructions
from twill.emulate.ptx.parser import parse
from twill.emulate.ptx.syntax import Function, Instruction, Variable
from twill.emulate.ptx.syntax import Module as Text
from twill.emulate.tensormap import TensorMap

MOST_SHARED = 227 * 1024
"""Bytes of shared memory of a CTA (CUDA programming guide, compute capability 9.0 and 10.0)."""
MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Mapped:
    """A tensor map of an array: `map` with its address counted in bytes from the array's start."""

    array: Array
    map: TensorMap


Argument: TypeAlias = "Array | int | float | Mapped | TensorMap | bytes | np.generic"
Extents: TypeAlias = Sequence[int]


@dataclass(slots=True)
class Kernel:
    module: "Module"
    function: Function
    code: Code

    @property
    def threads(self) -> int | None:
        """Of a CTA, where the text says (.reqntid, .maxntid)."""
        given = self.function.attributes.get("reqntid") or self.function.attributes.get("maxntid")
        return int(np.prod(given)) if given else None

    def launch(
        self,
        grid: Extents,
        arguments: Sequence[Argument],
        *,
        block: Extents | None = None,
        cluster: Extents | None = None,
        shared: int = 0,
        seed: int = 0,
        device: Device | None = None,
        ctas: Sequence[Extents] | None = None,
        strict: bool = True,
        meter: Meter | None = None,
    ) -> None:
        """Runs the grid, or of it only the clusters that hold `ctas`. `shared` are bytes of dynamic shared
        memory; `seed` above 0 chooses at random when what is asynchronous happens, 0 does so as late as
        possible. `device` is memory into which arguments that are integers may point. With `strict` off,
        what Triton omits is accepted (`Launch.strict`). `meter` counts instructions and may limit them.
        Raises TwillError."""
        memory = device or Device()
        try:
            parameters = pack(self.function, arguments, memory)
            symbols = self.module.variables(memory)
            launch = Launch(
                self.code,
                three(grid),
                three(block or (self.threads or 1,)),
                three(cluster or self.code.clusters or (1, 1, 1)),
                shared,
                parameters,
                memory,
                symbols,
                strict=strict,
                meter=meter or Meter(),
            )
            self._check(launch)
            launch.waiting.extend(_origins(launch, ctas))
        except Fault as fault:
            raise TwillError(fault.message, help=fault.help) from fault
        with np.errstate(all="ignore"):
            while launch.waiting:
                self._cluster(launch, launch.waiting.pop(0), seed)

    def _check(self, launch: Launch) -> None:
        if launch.shared + self.code.shared > MOST_SHARED:
            raise Fault(
                f"{launch.shared + self.code.shared} bytes of shared memory; a CTA has at most {MOST_SHARED}"
            )
        if not 0 < launch.threads <= MOST_THREADS:
            raise Fault(f"{launch.threads} threads; a CTA has at most {MOST_THREADS}")
        wanted = self.function.attributes.get("reqntid")
        if wanted and three(wanted) != launch.block:
            raise Fault(f"a block of {launch.block}; the kernel requires {wanted}")
        if wrong := [axis for axis in range(3) if launch.grid[axis] % launch.cluster[axis]]:
            raise Fault(
                f"the grid's {launch.grid[wrong[0]]} CTAs do not divide into clusters of"
                f" {launch.cluster[wrong[0]]}"
            )

    def _cluster(self, launch: Launch, origin: tuple[int, int, int], seed: int) -> None:
        cluster = None
        try:
            cluster = Cluster(launch, origin, seed)
            cluster.run()
        except Fault as fault:
            raise located(fault, self.module.text.file, self.module.text.lines, *_at_work(cluster)) from fault


def _at_work(cluster: Cluster | None) -> tuple[Instruction | None, str]:
    """The instruction at which a fault was noticed, and the warp that executed it."""
    warp = cluster.current if cluster else None
    if warp is None:
        return None, "after all warps have exited"
    block = warp.code.blocks[warp.fragment.pc]
    position = warp.at if warp.at < len(block.lines) else len(block.lines) - 1
    return warp.code.instructions[block.lines[position]], warp.name


def _origins(launch: Launch, ctas: Sequence[Extents] | None) -> Sequence[tuple[int, int, int]]:
    (x, y, z), (i, j, k) = launch.grid, launch.cluster
    if ctas is not None:
        wanted = [three(one) for one in ctas]
        return sorted({(a // i * i, b // j * j, c // k * k) for a, b, c in wanted}, key=lambda one: one[::-1])
    return [(a, b, c) for c in range(0, z, k) for b in range(0, y, j) for a in range(0, x, i)]


def pack(function: Function, arguments: Sequence[Argument], device: Device) -> bytes:
    """A kernel's parameters as bytes. Raises Fault for a wrong number or type of arguments."""
    if len(arguments) != len(function.parameters):
        raise Fault(f"{function.name} has {len(function.parameters)} parameters, not {len(arguments)}")
    places = offsets(function.parameters)
    last = function.parameters[-1] if function.parameters else None
    made = bytearray(places[last.name] + last.bytes if last else 0)
    known = dict[int, int]()
    for one, value in zip(function.parameters, arguments, strict=True):
        data = _bytes(one, value, device, known)
        made[places[one.name] : places[one.name] + len(data)] = data
    return bytes(made)


def _bytes(one: Variable, value: Argument, device: Device, known: dict[int, int]) -> bytes:
    match value:
        case Mapped(array, map):
            return replace(map, address=map.address + _registered(array, one.name, device, known)).encode()
        case TensorMap():
            return value.encode()
        case bytes():
            return value
        case np.ndarray():
            return struct.pack("<Q", _registered(value, one.name, device, known))
        case float() | np.floating() if one.bits in (32, 64):
            return struct.pack("<f" if one.bits == 32 else "<d", float(value))
        case _:
            return (
                int(value).to_bytes(9, "little", signed=True)[: one.bits // 8]
                if int(value) < 1 << 64
                else b""
            )


def _registered(array: Array, name: str, device: Device, known: dict[int, int]) -> int:
    """The address of an array, which may be passed more than once."""
    start = array.__array_interface__["data"][0]
    if start not in known:
        known[start] = device.register(array, name)
    return known[start]


@dataclass(slots=True)
class Module:
    """PTX text, read."""

    text: Text
    kernels: dict[str, Kernel] = field(default_factory=dict[str, Kernel])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, one in self.text.functions.items() if one.entry))

    def kernel(self, name: str | None = None) -> Kernel:
        """An entry by its name, or the only one. Raises TwillError."""
        if name is None and len(self.names) == 1:
            name = self.names[0]
        if name not in self.names:
            raise TwillError(
                f"{self.text.file} has no kernel {name!r}", help=f"it has {', '.join(self.names) or 'none'}"
            )
        assert name
        if name not in self.kernels:
            function = self.text.functions[name]
            self.kernels[name] = Kernel(self, function, decode(self.text, function))
        return self.kernels[name]

    def variables(self, device: Device) -> Mapping[str, int]:
        """Addresses of the module's global and constant variables, with their initial values."""
        found = dict[str, int]()
        for one in self.text.variables.values():
            if one.space in ("global", "const") and not one.external:
                found[one.name] = device.register(_initial(one), one.name, align=max(256, one.align))
        return found


def _initial(one: Variable) -> Array:
    data = np.zeros(max(1, one.bytes), np.uint8)
    size = max(1, one.bits // 8)
    for i, value in enumerate(one.initial):
        if isinstance(value, str):
            raise Fault(f"the variable {one.name} holds the address of {value}, which is not supported")
        word = (
            struct.pack("<f" if size == 4 else "<d", value)
            if isinstance(value, float)
            else (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        )
        data[size * i : size * i + size] = np.frombuffer(word, np.uint8)
    return data


def load(text: str, file: str = "kernel.ptx") -> Module:
    """PTX text, ready to launch. Raises TwillError for what is not PTX."""
    return Module(parse(text, file))
