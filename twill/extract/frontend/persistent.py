"""A kernel that walks over the programs of its grid, made from one that is a single program.

Takes a `Module`; gives the same with a loop around the body of each kernel: the blocks that are launched
share the programs of the grid, in waves of consecutive programs, one for each block. In every second wave the
blocks have them in reverse: where the length of a program follows from its number, as in causal attention,
each block then has long and short ones (on an H200, 128 heads of length 8192: 5.45 million SM cycles, 5.69
with all waves in the same order). Where lengths differ so, blocks rather claim programs one by one, unless
the user says otherwise (`twill.unequal` marks such a kernel): those of a few rows of the grid together, all
that have the same place along x one after the other. The longest come first, so that all blocks end at the
same time, and what a row loads stays in L2 (5.06 million SM cycles, 5.15 row by row). The size of the grid
comes as three more arguments, marked `twill.grid` with their axis. Lines stay where they are. Raises
TwillError, with the line, for a kernel that is no single block of operations.
"""

from typing import Literal

from twill.diagnostics import TwillError
from twill.extract.rewrite.text.edits import Edit, edited
from twill.ir.loop import GRID, UNEQUAL, Function, Module
from twill.ops.table import role

Order = Literal["suited", "mirrored", "neighbours", "claimed"]
"""Of programs: in reverse in every second wave; the same in every wave, so that neighbours stay neighbours;
as blocks claim them; `suited`: to be claimed where they are of unequal length, else mirrored."""

ROWS = 4
"""Of the grid whose programs are claimed together."""

_AXES = "xyz"
_INSTEAD = {
    ("program_id", "x"): "arith.remsi %twill_tile, %twill_grid_x",
    ("program_id", "y"): "arith.remsi %twill_row, %twill_grid_y",
    ("program_id", "z"): "arith.divsi %twill_row, %twill_grid_y",
    **{("num_programs", axis): f"arith.addi %twill_grid_{axis}, %twill_zero" for axis in _AXES},
}
_BOUNDS = (
    "%twill_plane = arith.muli %twill_grid_x, %twill_grid_y : i32",
    "%twill_tiles = arith.muli %twill_plane, %twill_grid_z : i32",
    "%twill_first = tt.get_program_id x : i32",
    "%twill_step = tt.get_num_programs x : i32",
    "%twill_zero = arith.constant 0 : i32",
)
_HEAD = (
    *_BOUNDS,
    "%twill_unit = arith.constant 1 : i32",
    "%twill_pair = arith.constant 2 : i32",
    "scf.for %twill_number = %twill_first to %twill_tiles step %twill_step : i32 {",
    "%twill_wave = arith.divsi %twill_number, %twill_step : i32",
    "%twill_begin = arith.muli %twill_wave, %twill_step : i32",
    "%twill_left = arith.subi %twill_tiles, %twill_begin : i32",
    "%twill_width = arith.minsi %twill_step, %twill_left : i32",
    "%twill_last = arith.subi %twill_width, %twill_unit : i32",
    "%twill_mirrored = arith.subi %twill_last, %twill_first : i32",
    "%twill_parity = arith.remsi %twill_wave, %twill_pair : i32",
    "%twill_odd = arith.cmpi eq, %twill_parity, %twill_unit : i32",
    "%twill_place = arith.select %twill_odd, %twill_mirrored, %twill_first : i32",
    "%twill_tile = arith.addi %twill_begin, %twill_place : i32",
    "%twill_row = arith.divsi %twill_tile, %twill_grid_x : i32",
)
_IN_ORDER = (
    *_BOUNDS,
    "scf.for %twill_tile = %twill_first to %twill_tiles step %twill_step : i32 {",
    "%twill_row = arith.divsi %twill_tile, %twill_grid_x : i32",
)
_ROWS_TOGETHER = (
    *_BOUNDS,
    "%twill_rows = arith.muli %twill_grid_y, %twill_grid_z : i32",
    f"%twill_together = arith.constant {ROWS} : i32",
    "scf.for %twill_number = %twill_first to %twill_tiles step %twill_step : i32 {",
    "%twill_size = arith.muli %twill_together, %twill_grid_x : i32",
    "%twill_round = arith.divsi %twill_number, %twill_size : i32",
    "%twill_begin = arith.muli %twill_round, %twill_size : i32",
    "%twill_place = arith.subi %twill_number, %twill_begin : i32",
    "%twill_above = arith.muli %twill_round, %twill_together : i32",
    "%twill_left = arith.subi %twill_rows, %twill_above : i32",
    "%twill_width = arith.minsi %twill_together, %twill_left : i32",
    "%twill_along = arith.divsi %twill_place, %twill_width : i32",
    "%twill_before = arith.muli %twill_along, %twill_width : i32",
    "%twill_down = arith.subi %twill_place, %twill_before : i32",
    "%twill_line = arith.addi %twill_above, %twill_down : i32",
    "%twill_start = arith.muli %twill_line, %twill_grid_x : i32",
    "%twill_tile = arith.addi %twill_start, %twill_along : i32",
    "%twill_row = arith.divsi %twill_tile, %twill_grid_x : i32",
)
"""The number of a program in the grid, from which its place follows as in the other orders. (With the place
taken from these numbers directly, ptxas orders the loop of causal attention in another way: 4.96 million SM
cycles on an H200, 4.88 so.)"""


def persistent(module: Module, order: Order = "suited") -> Module:
    """The module with its kernels walking over their grids."""
    edits = [
        edit
        for function in module.functions
        if function.public and function.body
        for edit in _edits(module, function, order)
    ]
    return edited(module, (Edit(*edit) for edit in sorted(edits)))


def _edits(module: Module, function: Function, order: Order) -> list[tuple[int, int, str]]:
    """Begin, end and what stands there instead."""
    blocks = function.body.blocks if function.body else ()
    if len(blocks) != 1 or role(blocks[0].ops[-1]) != "return" or blocks[0].ops[-1].operands:
        raise TwillError(
            f"{function.name} can not be made persistent: its body is no single block",
            function.location,
            help="leave --persistent out",
        )
    ops = blocks[0].ops
    end = arguments_end(module.text, function)
    head = _written(function, order)
    marks = f", {UNEQUAL} = true" if head is _ROWS_TOGETHER else ""
    names = ", ".join(
        f"%twill_grid_{axis}: i32 {{{GRID} = {i} : i32{marks}}}" for i, axis in enumerate(_AXES)
    )
    edits = [(end, end, f"{', ' if function.args else ''}{names}")]
    edits.append((ops[0].span.start, ops[0].span.start, " ".join([*head, ""])))
    edits.append((ops[-1].span.start, ops[-1].span.start, "} "))
    for op in function.walk():
        if text := _INSTEAD.get((role(op), str(op.attributes.get("axis")))):
            edits.append((op.span.start, op.span.end, f"{op.result.name} = {text} : i32"))
    return edits


def _written(function: Function, order: Order) -> tuple[str, ...]:
    """What stands before a kernel's body."""
    match order:
        case "suited":
            return _written(function, "claimed" if _unequal(function) else "mirrored")
        case "mirrored":
            return _HEAD
        case "neighbours":
            return _IN_ORDER
        case "claimed":
            return _ROWS_TOGETHER if _unequal(function) else _IN_ORDER


def _unequal(function: Function) -> bool:
    """Whether the trip count of a loop depends on a program's place along x."""
    along = set[int]()
    for op in function.walk():
        first = role(op) == "program_id" and str(op.attributes.get("axis")) == "x"
        if first or any(value.id in along for value in op.operands):
            along |= {value.id for value in op.results}
        if role(op) == "for" and any(value.id in along for value in op.operands[:3]):
            return True
    return False


def arguments_end(text: str, function: Function) -> int:
    """Where the parenthesis of a function's arguments closes."""
    at = text.index("(", text.index(f"@{function.name}"))
    depth, quoted = 0, False
    for i in range(at, len(text)):
        quoted ^= text[i] == '"'
        depth += 0 if quoted else {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i
    raise TwillError(f"the arguments of {function.name} do not end", function.location)
