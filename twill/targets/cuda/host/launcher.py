"""The launcher of a kernel, with a C interface: it encodes the tensor maps, counts the thread blocks and
launches them, in the form that is predicted to be fastest.

Takes a `Program` and its form with pointer loads by TMA, where it has one; gives the text of a C function,
and of one for each other form. Raises TwillError for a descriptor that can not be generated.
"""

from collections.abc import Mapping, Sequence

from twill.diagnostics import TwillError
from twill.ir.loop import GRID, NvmmaShared, Op, Scalar, TensorDesc
from twill.ir.operands import Slot
from twill.ir.program import AXES, BlockPace, Program
from twill.ir.slicing import backward_slice
from twill.ir.statements import ProducerLoad, StoreTile, walk
from twill.ops.table import TABLE, role
from twill.targets.cuda.emitter import ORDERED, indented, line_bytes
from twill.targets.cuda.expressions import bare
from twill.targets.cuda.host import device_maps, host_numbers, host_trips
from twill.targets.cuda.host.host_trips import ITERATIONS
from twill.targets.cuda.host.parameters import argument, arguments, map_name, maps, templates
from twill.targets.cuda.loads.tiled_form import TiledForm, encoded, without_cluster
from twill.targets.cuda.operations import execute
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import MOST_ELEMENTS
from twill.targets.cuda.values.arithmetic import expression
from twill.warp.slot_tensors import bits

MAP_TYPES = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "f8E4M3FN": "UINT8",
    "f8E5M2": "UINT8",
    **{sign + name: kind for name, kind in (("i8", "UINT8"), ("i16", "UINT16")) for sign in ("", "s", "u")},
    **{
        sign + f"i{size}": f"{kind}{size}"
        for size in (32, 64)
        for sign, kind in (("", "INT"), ("s", "INT"), ("u", "UINT"))
    },
}
"""Element types in the names of `CUtensorMapDataType`; descriptors of integers say whether they have a
sign."""
NO_ELEMENTS = "no_elements"
"""The memory of tensors without elements."""
CHOICE = "choice"
"""What a launch takes: which form, and bytes of shared memory at least."""
EXTENTS = ("int grid_x", "int grid_y", "int grid_z")
CLUSTERED = "clustered"
"""Whether the thread blocks of a launch can be clusters that share loads."""
MOST_ALONG_YZ = 65535
"""Thread blocks along y or z of a grid (CUDA C++ Programming Guide, technical specifications)."""


def launcher(program: Program, name: str, bytes: int, form: TiledForm | None) -> list[str]:
    """The function `name`_launch; `bytes` of dynamic shared memory."""
    extents = _extents(program)
    own = [text for i, text in enumerate(arguments(program)) if i not in extents]
    signature = ", ".join([*own, *EXTENTS, "cudaStream_t stream"])
    what = "gives a cudaError_t, or a CUresult above 0 where a tensor map can not be made."
    return [
        f"/// Launches the kernel; {what}",
        'extern "C" int',
        f"{name}_launch({signature}) {{",
        *indented(_with_extents([*_choice(program, name), *_launched(program, name, bytes, form)])),
        "}",
    ]


def other_launcher(program: Program, name: str, bytes: int, form: TiledForm | None) -> list[str]:
    """The same of another form, for the launcher that chooses it."""
    given = [*EXTENTS, f"Choice {CHOICE}", "cudaStream_t stream"]
    signature = ", ".join([*arguments(program), *given])
    lines = indented(_with_extents(_launched(program, name, bytes, form)))
    return ["static int", f"{name}_launch({signature}) {{", *lines, "}"]


def _with_extents(lines: Sequence[str]) -> Sequence[str]:
    """With the grid by its name in a kernel, where what the host computes follows from it."""
    grid = "const dim3 gridDim(grid_x, grid_y, grid_z);"
    return [grid, *lines] if any("gridDim." in line for line in lines) else lines


def other_name(name: str, other: Program) -> str:
    """Of the kernel of another form of a program."""
    return f"{name}_{other.resident_blocks}_blocks"


def _choice(program: Program, name: str) -> list[str]:
    """The choice of a launch between forms, by the iterations of its loops and the number of its blocks."""
    if program.pace is None:
        return []
    own = [*(argument(program, one) for one in program.function.args), "grid_x", "grid_y", "grid_z"]
    long = [(one, one.pace.long_loop) for one in program.others if one.pace and one.pace.long_loop]
    chosen = [one for one in program.others if one.pace and one.pace.long_loop is None]
    paces = [one.pace for one in (program, *chosen) if one.pace]
    around = max(one.around for one in paces)
    forms = ", ".join(f"{{{one.blocks}, {_alone(one)}, {one.busy:.0f}}}" for one in paces)

    def launched(other: Program, choice: str) -> str:
        passed = ", ".join([*own, choice, "stream"])
        return f"return {other_name(name, other)}_launch({passed});"

    return [
        *(host_trips.computed(program) if long or around else []),
        *(f"if ({ITERATIONS} >= {least}) {launched(one, 'Choice{}')}" for one, least in long),
        "// thread blocks on a multiprocessor; cycles of an iteration of one alone, and of its busiest unit",
        *(
            [f"const double around = {around:.0f} / double(std::max<int64_t>({ITERATIONS}, 1));"]
            if around
            else []
        ),
        f"const Form forms[] = {{{forms}}};",
        f"Choice {CHOICE};",
        *_checked(f"choose(int64_t(grid_x) * grid_y * grid_z, forms, &{CHOICE})"),
        *(f"if ({CHOICE}.form == {i}) {launched(one, CHOICE)}" for i, one in enumerate(chosen, 1)),
    ]


def _alone(pace: BlockPace) -> str:
    """Cycles for an iteration of a block, with its part of those around all that a launch counts."""
    return f"{pace.alone - pace.around / pace.trips:.0f}{' + around' if pace.around else ''}"


def _launched(program: Program, name: str, bytes: int, form: TiledForm | None) -> list[str]:
    """What launches one form."""
    lines = ["if (grid_x % 2) return cudaErrorInvalidConfiguration;"] if program.pairs else []
    lines += [f"bool {CLUSTERED} = grid_x % 2 == 0;"] if program.cluster > 1 else []
    lines += [line for value in program.even for line in _even(program, value)]
    for position, axis in _extents(program).items():
        value = program.function.args[position]
        lines.append(f"const int {argument(program, value)} = grid_{'xyz'[axis]};")
    lines += [f"NoElements {NO_ELEMENTS}(stream);"] if program.descriptors else []
    lines += [line for one in program.descriptors for line in _encode(program, one.ops)]
    lines += [*_block_count(program), *_device_maps(program), *_products(program)]
    if program.counted:
        lines += ["TileCounter counter(stream);", *_checked("counter.allocate()")]
    if program.pace is None:
        return [*lines, *_order(program), *_calls(program, name, str(bytes), form)]
    lines.append(f"const int bytes = {CHOICE}.bytes > {bytes} ? {CHOICE}.bytes : {bytes};")
    return [*lines, *_order(program), *_calls(program, name, "bytes", form)]


def _extents(program: Program) -> Mapping[int, int]:
    """The arguments, by position, that are extents of the grid of a kernel that walks over it, with their
    axes."""
    given = ((i, one.get(GRID)) for i, one in enumerate(program.function.arg_attributes))
    return {i: axis for i, axis in given if isinstance(axis, int)}


def _products(program: Program) -> list[str]:
    """What the kernel takes in place of computing it."""
    scope = Scope(program, program.groups[0], {})
    for op in map(program.op, host_numbers.products(program)):
        name = host_numbers.name(program, op.result)
        text = expression(op, [scope.scalar(value) for value in op.operands]) or ""
        scope.lines.append(f"const float {name} = {bare(text)};")
        scope.values[op.result.id] = name
    return scope.lines


def _block_count(program: Program) -> list[str]:
    """How many thread blocks of a kernel that walks over the grid are launched."""
    if not _extents(program):
        return []
    if program.claiming is not None and not program.counted:
        return ["const int64_t blocks = int64_t(grid_x) * grid_y * grid_z;"]
    return [
        "unsigned blocks = 0;",
        *_checked("resident_blocks(int64_t(grid_x) * grid_y * grid_z, &blocks)"),
        *(["blocks = (blocks + 1) / 2 * 2;"] if program.pairs else []),
        *([f"if ({CLUSTERED}) blocks = (blocks + 1) / 2 * 2;"] if program.cluster > 1 else []),
    ]


def _device_maps(program: Program) -> list[str]:
    """Memory for the tensor maps that thread blocks make, and the maps that they begin with."""
    count = len(device_maps.made(program))
    if not count:
        return []
    blocks = "int64_t(blocks)" if _extents(program) else "int64_t(grid_x) * grid_y * grid_z"
    return [
        "TensorMapMemory made(stream);",
        *_checked(f"made.allocate({blocks} * {count})"),
        f"CUtensorMap* const {device_maps.MEMORY} = made.maps;",
        *(line for op in device_maps.templates(program) for line in _template(program, op)),
    ]


def _dim3(order: Sequence[int]) -> str:
    extents = [f"grid_{'xyz'[axis]}" for axis in order]
    return f"dim3({', '.join(extents)})"


def _order(program: Program) -> list[str]:
    """The grid that is launched, where that is another one than the programs' if its extents allow it."""
    if program.order == AXES:
        return []
    fits = " && ".join(f"grid_{'xyz'[axis]} <= {MOST_ALONG_YZ}" for axis in program.order[1:])
    return [
        f"const bool {ORDERED} = {fits};",
        f"const dim3 grid = {ORDERED} ? {_dim3(program.order)} : {_dim3(AXES)};",
    ]


def _calls(program: Program, name: str, bytes: str, form: TiledForm | None) -> list[str]:
    """The launch of the kernel that the arguments allow."""
    grid = "dim3(blocks)" if _extents(program) else "grid" if program.order != AXES else _dim3(AXES)
    plain = _with_or_without_cluster(TiledForm(program, {}), f"{name}_kernel", grid, bytes)
    if form is None:
        return plain
    by_tma = indented(_with_or_without_cluster(form, f"{name}_tma_kernel", grid, bytes))
    return [*encoded(form, MAP_TYPES), "if (by_tma) {", *by_tma, "}", *plain]


def alone(name: str) -> str:
    """The name of the kernel whose thread blocks are no clusters, beside the one where they are."""
    return f"{name.removesuffix('_kernel')}_alone_kernel"


def _with_or_without_cluster(form: TiledForm, name: str, grid: str, bytes: str) -> list[str]:
    """The launch of a kernel, or of the one without clusters beside it where this launch has none."""
    made = _call(form, name, grid, bytes)
    if form.program.cluster == 1:
        return made
    other = _call(without_cluster(form), alone(name), grid, bytes)
    return [f"if ({CLUSTERED}) {{", *indented(made), "}", *other]


def _call(form: TiledForm, name: str, grid: str, bytes: str) -> list[str]:
    """The launch of one kernel."""
    program = form.program
    passed = [*maps(form), *templates(program), *(argument(program, a) for a in program.function.args)]
    passed += [device_maps.MEMORY] if device_maps.made(program) else []
    passed += ["counter.value"] if program.counted else []
    passed += [ORDERED] if program.order != AXES else []
    passed += host_numbers.names(program)
    launch = f"{name}<<<{grid}, {program.launch.threads}, {bytes}, stream>>>({', '.join(passed)});"
    return [*_checked(f"allow_shared_memory<{name}>({bytes})"), launch, "return cudaGetLastError();"]


def _checked(call: str) -> list[str]:
    """A call of the CUDA runtime; its error is the launcher's."""
    return [f"if (const cudaError_t status = {call}) return status;"]


def _even(program: Program, value: int) -> list[str]:
    """A launch with an odd number is refused, or has no clusters that share loads."""
    ops = backward_slice([program.value(value)], program.maker)
    scope = Scope(program, program.groups[0], {})
    for index in sorted(ops):
        if role(ops[index]) != "constant":
            execute(scope, ops[index])
    odd = f"if ({scope.scalar(program.value(value))} % 2)"
    check = f"{odd} return cudaErrorInvalidValue;" if program.pairs else f"{odd} {CLUSTERED} = false;"
    return ["{", *indented([*scope.lines, check]), "}"]


def _part(program: Program, descriptor: int, kind: TensorDesc) -> tuple[int, ...]:
    """The shape of the tile that a thread block loads through a descriptor: the descriptor's own, unless each
    block of a pair loads a part of it."""
    fills = (it for group in program.groups for it in walk(group.body) if isinstance(it, ProducerLoad))
    for fill in fills:
        for load in fill.loads:
            if program.op(load.ops[-1]).operands[0].id == descriptor:
                tensor = program.channel(fill.channel).tensors[load.tensor]
                outer = kind.shape[: len(kind.shape) - len(tensor.box)]
                return kind.shape if tensor.box == tensor.shape else (*outer, *tensor.box)
    return _stored_rows(program, descriptor) or kind.shape


def _stored_rows(program: Program, descriptor: int) -> tuple[int, ...] | None:
    """The shape of what is stored through a descriptor where each warpgroup has rows of its own; None where
    whole tiles are."""
    stores = (it for group in program.groups for it in walk(group.body) if isinstance(it, StoreTile))
    for it in stores:
        slots = (read.location for read in it.reads if isinstance(read.location, Slot))
        tensors = [program.channel(slot.channel).tensors[slot.tensor] for slot in slots if not it.staged]
        own = program.op(it.ops[-1]).operands[0].id == descriptor
        if own and tensors and tensors[0].first_row is not None:
            return tensors[0].shape
    return None


def _encode(program: Program, ops: tuple[int, ...]) -> list[str]:
    """A tensor map from the kernel's arguments, as the function itself computes them."""
    scope = Scope(program, program.groups[0], {})
    for index in ops[:-1]:
        execute(scope, program.op(index))
    op = program.op(ops[-1])
    rank = len(getattr(op.result.type, "shape", ()))
    data, *numbers = (scope.scalar(value) for value in op.operands[: 1 + 2 * rank])
    use = f", {NO_ELEMENTS}, MapUse::{_use(program, op.result.id)}"
    return _encoded(program, op, scope.lines, data, numbers[:rank], numbers[rank:], use)


def _use(program: Program, descriptor: int) -> str:
    """How the kernel uses a tensor map, as the runtime names it."""
    users = [op for op in program.function.walk() if descriptor in (value.id for value in op.operands)]
    stored = {TABLE[op.name].writes_global for op in users}
    return "load_and_store" if len(stored) > 1 else "store" if True in stored else "load"


def _template(program: Program, index: int) -> list[str]:
    """A tensor map for one block, whose address, sizes and strides thread blocks replace."""
    op = program.op(index)
    assert isinstance(op.result.type, TensorDesc)
    return _encoded(program, op, [], device_maps.MEMORY, *device_maps.template_numbers(op.result.type))


def _map_type(kind: TensorDesc) -> str:
    """In the name of a `CUtensorMapDataType`."""
    assert isinstance(kind.dtype, Scalar)
    padded = isinstance(kind.encoding, NvmmaShared) and kind.encoding.fp4_padded
    return "16U4_ALIGN16B" if padded else MAP_TYPES[kind.dtype.name]


def _encoded(
    program: Program,
    op: Op,
    lines: list[str],
    data: str,
    sizes: list[str],
    strides: list[str],
    more: str = "",
) -> list[str]:
    """The call that encodes a tensor map, behind the lines that compute what it takes; `more` are further
    arguments."""
    kind = op.result.type
    assert isinstance(kind, TensorDesc)
    assert isinstance(kind.dtype, Scalar)
    try:
        line = line_bytes(kind)
    except ValueError as problem:
        raise TwillError(f"a tile {problem}", op.location) from problem
    shape = _part(program, op.result.id, kind)
    if max(shape[:-1], default=1) > MOST_ELEMENTS:
        raise TwillError(f"a descriptor of {kind.shape} can not be generated", op.location)
    rank, size = len(kind.shape), bits(kind.dtype) // 8
    box = ", ".join(map(str, [line // size, *reversed(shape[:-1])]))
    plain = isinstance(kind.encoding, NvmmaShared) and kind.encoding.swizzle_bytes == 0
    swizzle = "NONE" if plain else f"{line}B"
    name, form = (
        map_name(program, op.index),
        f"CU_TENSOR_MAP_DATA_TYPE_{_map_type(kind)}, CU_TENSOR_MAP_SWIZZLE_{swizzle}",
    )
    extents, pitches = device_maps.extents(sizes, kind), device_maps.pitches(strides, size)
    call = f"tensor_map<{rank}>(&{name}, {form}, {data}, {{{extents}}}, {{{pitches}}}, {{{box}}}{more})"
    return [
        f"CUtensorMap {name};",
        "{",
        *indented([*lines, f"if (const int status = {call}) return status;"]),
        "}",
    ]
