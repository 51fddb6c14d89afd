"""What goes from thread to thread of a group: reductions, and tiles that change their layout.

Takes elements in registers and the group's scratch room in shared memory; gives C. The room is used between two meetings of the group's
warps: the first so that nobody still reads what lay there, the second so that everything is written.
"""

from twill.codegen.emit.arithmetic import expression, neutral
from twill.codegen.emit.shared import UNROLL
from twill.codegen.emit.tiles import Elements, Point, c_type, point
from twill.codegen.layouts import Layout
from twill.ir.loop import Op


def reduced(op: Op, name: str, source: Layout, elements: Elements, scratch: str, meet: str) -> list[str]:
    """A reduction into the variable `name`: in a thread, then among the lanes that share a row (1 and 2 apart) or a column (4, 8 and 16),
    then among the warps that do. Raises ValueError for one that joins elements otherwise than by a single operation."""
    combine = op.regions[0].blocks[0].ops[0]
    start = neutral(combine.name)
    if start is None or len(op.regions[0].blocks[0].ops) != 2 or len(op.results) != 1 or source.axes != (0, 1):
        raise ValueError("only sums, products, maxima and minima of rows or columns can be generated")
    kept, lanes, sharing = (0, (1, 2), source.across) if op.attributes["axis"] == 1 else (1, (4, 16), source.down)
    one, kind = point(source, "i_"), c_type(combine.result.type)
    vector = one.along((kept,))
    count = vector.layout.registers

    def joined(one: str, other: str) -> str:
        return f"{one} = {expression(combine, [one, other])};"

    lines = [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {name}[i_] = {start};", UNROLL]
    lines.append(f"for (int i_ = 0; i_ < {source.registers}; ++i_) {joined(f'{name}[{vector.register}]', elements(one))}")
    lines += [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_)", f"    for (int lanes = {lanes[0]}; lanes <= {lanes[1]}; lanes *= 2)"]
    lines.append(f"        {joined(f'{name}[i_]', f'__shfl_xor_sync(~0u, {name}[i_], lanes)')}")
    if sharing == 1:
        return lines
    warp = f"place.row / {16 * source.down}" if kept == 0 else f"place.row / 16 % {source.down}"
    first = "place.lane % 4 == 0" if kept == 0 else "place.lane < 4"
    index = f"{vector.layout.shape[0]} + {Point(vector.layout, 'i_').coordinate()}"
    lines += [meet, UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_)"]
    lines.append(f"    if ({first}) shared_at<{kind}>({scratch} + ({warp} * {index}) * sizeof({kind})) = {name}[i_];")
    lines += [meet, UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {{", f"    {name}[i_] = {start};"]
    found = f"shared_at<{kind}>({scratch} + (warp * {index}) * sizeof({kind}))"
    return [*lines, f"    for (int warp = 0; warp < {sharing}; ++warp) {joined(f'{name}[i_]', found)}", "}"]
