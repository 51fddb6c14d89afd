"""A machine that executes PTX on the CPU, instruction by instruction, and reports what a kernel must not
do."""

from twill.emulate.faults import HazardError, UnknownError
from twill.emulate.memory.device import Device
from twill.emulate.module import Kernel, Mapped, Module, load
from twill.emulate.tensormap import TensorMap

__all__ = ["Device", "HazardError", "Kernel", "Mapped", "Module", "TensorMap", "UnknownError", "load"]
