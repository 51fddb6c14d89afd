"""What a caller must know of a kernel, from its program."""

from collections.abc import Mapping, Sequence

from twill.diagnostics import TwillError
from twill.extract.frontend.descriptors import DESCRIPTOR
from twill.extract.overlap import apart
from twill.extract.strides import layouts
from twill.ir.checked import Checked
from twill.ir.loop import GRID, Attribute, Pointer, Scalar, Value
from twill.ir.names import identifier
from twill.ir.program import BlockPace, Program
from twill.ir.strides import Stride
from twill.launch.manifest import Argument, Constant, LaunchForm, Manifest, Predicted
from twill.warp.tasks import Scheduled


def manifest(
    program: Program,
    loops: Sequence[Scheduled],
    simulated: Mapping[str, float],
    checked: Checked | None = None,
) -> Manifest:
    """`simulated` by the path of the loop. Raises TwillError for an argument that no caller can pass."""
    function = program.function
    pairs = zip(function.args, function.arg_attributes, strict=True)
    strides = {one.argument: one.strides for one in layouts(function)}
    arguments = tuple(
        _argument(value, attributes, program, strides)
        for value, attributes in pairs
        if GRID not in attributes
    )
    persistent = any(GRID in attributes for attributes in function.arg_attributes)
    constants = tuple(Constant(name, repr(value)) for name, value in sorted(program.module.constants.items()))
    predicted = tuple(
        Predicted(
            one.loop.path,
            round(one.solution.interval * one.problem.resolution.cycles_per_unit),
            simulated[one.loop.path],
        )
        for one in loops
    )
    registers = _registers(program)
    arch = loops[0].machine.arch
    shape = (program.launch.threads, registers, arguments, predicted, persistent, constants, checked, arch)
    forms = tuple(_form(one, one.pace) for one in (program, *program.others) if one.pace)
    return Manifest(identifier(function.name), program.module.file, *shape, apart(function), forms)


def _registers(program: Program) -> int:
    return max(group.registers for group in program.groups)


def _form(program: Program, pace: BlockPace) -> LaunchForm:
    return LaunchForm(pace.blocks, program.launch.threads, _registers(program), pace.alone, pace.busy)


def _argument(
    value: Value,
    attributes: Mapping[str, Attribute],
    program: Program,
    strides: Mapping[str, tuple[Stride, ...] | None],
) -> Argument:
    promised = attributes.get("tt.divisibility", 1)
    divisible = promised if isinstance(promised, int) else 1
    block = attributes.get(DESCRIPTOR)
    match value.type:
        case Pointer(Scalar() as kind) if isinstance(block, tuple):
            sizes = tuple(size for size in block if isinstance(size, int))
            return Argument(value.name.lstrip("%"), f"*{kind.signless}", divisible, descriptor=sizes)
        case Pointer(Scalar(name)):
            return Argument(value.name.lstrip("%"), f"*{name}", divisible, strides[value.name.lstrip("%")])
        case Scalar(name):
            return Argument(value.name.lstrip("%"), name, divisible)
        case other:
            raise TwillError(
                f"the argument {value.name} of type {other} can not be passed by a caller",
                program.function.location,
            )
