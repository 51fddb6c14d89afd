# pyright: basic
"""Rules REGISTERS and THREADS: what each group holds at every residue, and how the register file is split."""

from ortools.sat.python import cp_model

from twill.ir.problem import Value
from twill.smt.cpsat import groups
from twill.smt.cpsat.variables import Hold, Literal, Variables, negate

Demand = tuple[cp_model.IntervalVar, int]


def state(v: Variables, used: list[Literal]) -> None:
    """Peaks under grants, grants under the register file, warps under the block's limit."""
    values = [value for value in v.problem.values if value.registers]
    top = _highest_peak(v, values)
    peaks = [v.model.new_int_var(0, top, f"peak[{g}]") for g in range(v.group_count)]
    holds = {value.id: home(v, value) for value in values if not value.resident}
    for g in range(v.group_count):
        _fit(v, g, values, holds, peaks[g], top)
    _file(v, peaks, used)


def _highest_peak(v: Variables, values: list[Value]) -> int:
    """What a thread's limit leaves; a narrow group has no limit of its own, so all there is where one may hold values."""
    operation, limits = v.problem.operation, v.problem.limits
    if any(operation(op).warps == 1 for value in values for op in (value.src, *(use.op for use in value.uses))):
        return 2 * sum(value.registers for value in values) * (v.most_copies + 1)
    return max(0, limits.registers_per_thread - limits.register_base)


def home(v: Variables, value: Value) -> Hold:
    """How long the producing group holds a value: to its last use there, and through its latency if it is handed over."""
    src = v.problem.index(value.src)
    end = v.end_var(f"home[{value.id}]")
    v.model.add(end >= v.start[src])
    for use in value.uses:
        op = v.problem.index(use.op)
        same = v.same(src, op)
        if same is not False:
            v.when(v.model.add(end >= v.start[op] + use.distance * v.interval + use.hold), same)
        if same is not True:
            v.when(v.model.add(end >= v.start[src] + v.problem.operations[src].latency), negate(same))
    return v.hold(src, end, f"home[{value.id}]")


def _fit(v: Variables, g: int, values: list[Value], holds: dict[str, Hold], peak: cp_model.IntVar, top: int) -> None:
    """At every residue what group g holds is at most its peak."""
    constant: list[cp_model.LinearExprT] = []
    demands: list[Demand] = []
    for value in values:
        present = v.on(v.problem.index(value.src), g)
        if value.resident:
            constant.append(value.registers * present)
        else:
            part, line = _demand(v, holds[value.id], present, value.registers)
            constant.append(part)
            demands += line
        part, line = _away(v, g, value)
        constant.append(part)
        demands += line
    room = v.model.new_int_var(0, top, f"room[{g}]")
    v.model.add(room == peak - cp_model.LinearExpr.sum(constant))
    if demands:
        v.model.add_cumulative([d[0] for d in demands], [d[1] for d in demands], room)


def _demand(v: Variables, hold: Hold, present: Literal, size: int) -> tuple[cp_model.LinearExprT, list[Demand]]:
    """A hold's whole periods as a constant, its rest as optional intervals."""
    whole = v.model.new_int_var(0, v.most_copies, "")
    v.when(v.model.add(whole >= hold.full), present)
    end = v.model.new_int_var(0, 2 * v.interval, "")
    intervals = [
        v.model.new_optional_interval_var(hold.residue + turn * v.interval, hold.rest, end + turn * v.interval, present, "")
        for turn in (0, 1)
    ]
    return size * whole, [(interval, size) for interval in intervals]


def _away(v: Variables, g: int, value: Value) -> tuple[cp_model.LinearExprT, list[Demand]]:
    """What group g holds of a value that another group produced: from its first use there to the end of its last."""
    src = v.problem.index(value.src)
    users = [(use, v.problem.index(use.op)) for use in value.uses if v.same(src, v.problem.index(use.op)) is not True]
    if not users or (len(users) == 1 and users[0][0].hold == 0):
        return 0, []
    here = [v.both(v.on(op, g), negate(v.on(src, g)), "") for _, op in users]
    present = v.any_of(here, f"away[{value.id},{g}]")
    begin, end = v.end_var(f"arrive[{value.id},{g}]"), v.end_var(f"leave[{value.id},{g}]")
    for (use, op), literal in zip(users, here, strict=True):
        time = v.start[op] + use.distance * v.interval
        v.when(v.model.add(begin <= time), literal)
        v.when(v.model.add(end >= time + use.hold), literal)
    return _demand(v, v.hold(begin, end, f"away[{value.id},{g}]"), present, value.registers)


def _file(v: Variables, peaks: list[cp_model.IntVar], used: list[Literal]) -> None:
    """Grants in register steps; the sum over wide groups and narrow warpgroups fits the register file, their warps the block."""
    limits, all_widths = v.problem.limits, groups.widths(v.problem)
    cost: list[cp_model.LinearExprT] = []
    warps: list[cp_model.LinearExprT] = []
    narrow: list[Literal] = []
    for g, peak in enumerate(peaks):
        grant = v.model.new_int_var(0, limits.registers_per_thread // limits.register_step, f"grant[{g}]")
        price = v.model.new_int_var(0, limits.registers_total, f"price[{g}]")
        width = v.model.new_int_var(0, max(all_widths, default=0), f"width[{g}]")
        wide = [(w, groups.wide(v, g, w)) for w in all_widths]
        is_wide = v.any_of([literal for _, literal in wide], f"wide[{g}]")
        v.when(v.model.add(grant * limits.register_step >= limits.register_base + peak), is_wide)
        for w, literal in wide:
            if literal is not False:
                v.when(v.model.add(price >= 32 * w * limits.register_step * grant), literal)
                v.when(v.model.add(width >= w), literal)
        cost.append(price)
        warps.append(width)
        narrow.append(v.both(used[g], negate(is_wide), f"narrow[{g}]"))
    warpgroups = v.model.new_int_var(0, -(-len(narrow) // 4), "narrow warpgroups")
    v.model.add(4 * warpgroups >= sum(narrow))
    v.model.add(cp_model.LinearExpr.sum(cost) + 128 * limits.narrow_registers * warpgroups <= limits.registers_total)
    v.model.add(cp_model.LinearExpr.sum(warps) + 4 * warpgroups <= limits.warps)
