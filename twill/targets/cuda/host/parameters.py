"""The parameters of a kernel as C: its arguments, and the tensor maps that the host or thread blocks make.

Takes a `Program`, or its form with pointer loads by TMA; gives declarations and names.
"""

from twill.ir.loop import Value
from twill.ir.program import AXES, Program
from twill.ops.c import c_type
from twill.targets.cuda.emitter import COUNTER, ORDERED
from twill.targets.cuda.host import device_maps, host_numbers
from twill.targets.cuda.loads.tiled_form import TiledForm
from twill.targets.cuda.names import c_name, tensor_map


def arguments(program: Program) -> list[str]:
    """Declarations of the kernel's own arguments."""
    return [f"{c_type(arg.type)} {argument(program, arg)}" for arg in program.function.args]


def parameters(form: TiledForm) -> str:
    """All declarations, as they stand in the kernel's signature."""
    given = [f"const __grid_constant__ CUtensorMap {one}" for one in (*maps(form), *templates(form.program))]
    memory = [f"CUtensorMap* {device_maps.MEMORY}"] if device_maps.made(form.program) else []
    memory += [f"uint32_t* {COUNTER}"] if form.program.counted else []
    memory += [f"bool {ORDERED}"] if form.program.order != AXES else []
    memory += host_numbers.parameters(form.program)
    return ", ".join([*given, *arguments(form.program), *memory])


def templates(program: Program) -> list[str]:
    """Names of the tensor maps that thread blocks change: of the descriptors that they make."""
    return [map_name(program, op) for op in device_maps.templates(program)]


def maps(form: TiledForm) -> list[str]:
    """Names of the tensor maps: of the descriptors that the kernel makes, and of the pointer loads by TMA."""
    return [
        map_name(form.program, op) for op in (*(one.ops[-1] for one in form.program.descriptors), *form.loads)
    ]


def map_name(program: Program, op: int) -> str:
    """The tensor map of the operation that makes a descriptor, or loads by one."""
    return tensor_map(program.name(program.op(op).result.id))


def argument(program: Program, argument: Value) -> str:
    """The name of an argument."""
    return c_name(program.name(argument.id))
