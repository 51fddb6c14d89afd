"""The thread block: its warps, its registers, and the variables of each group.

Takes the groups of a schedule and the bodies of their programs; gives first warps, `Launch`, registers and `Variable`s.
"""

from collections.abc import Sequence
from dataclasses import replace

from twill.ir.effects import effects, registers
from twill.ir.loop import Type
from twill.ir.program import Compute, InitializeCarried, Launch, MmaIssue, Register, Statement, Variable, WarpProgram, walk
from twill.ir.schedule import Group as Granted
from twill.warp.dataflow import Code
from twill.warp.tasks import Scheduled


def first_warp(group: Granted, granted: Sequence[Granted]) -> int:
    """Wide groups first, then the narrow ones side by side."""
    wide = [other for other in granted if other.warps >= 4]
    if group in wide:
        return sum(other.warps for other in wide[: wide.index(group)])
    narrow = [other for other in granted if other.warps < 4]
    return sum(other.warps for other in wide) + narrow.index(group)


def variables(code: Code, body: tuple[Statement, ...]) -> tuple[Variable, ...]:
    """The variables that a body assigns, with as many ages as it uses."""
    types, ages = dict[str, Type](), dict[str, int]()
    values = {
        value.id: value for op in code.ops.values() for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))
    }
    for statement in walk(body):
        touched = effects(statement)
        for register in registers((*touched.reads, *touched.writes)):
            ages[register.variable] = max(ages.get(register.variable, 1), register.age + 1)
        match statement:
            case Compute(writes=writes):
                types |= {write.register.variable: values[write.value].type for write in writes}
            case MmaIssue(ops=ops, accumulator=Register() as accumulator):
                types[accumulator.variable] = code.ops[ops[-1]].result.type
            case InitializeCarried(value=value, register=register):
                types[register.variable] = values[value].type
            case _:
                pass
    return tuple(Variable(name, types[name], ages[name]) for name in sorted(types))


def launch(granted: Sequence[Granted], one: Scheduled) -> Launch:
    """The thread block: all groups, in warpgroups."""
    wide = sum(group.warps for group in granted if group.warps >= 4)
    narrow = -(-sum(group.warps < 4 for group in granted) // 4)
    threads = 32 * (wide + 4 * narrow)
    step = one.problem.limits.register_step
    most = one.problem.limits.registers_per_thread // step * step
    return Launch(threads, min(most, one.problem.limits.registers_total // threads // step * step))


def with_registers(programs: Sequence[WarpProgram], launch: Launch, one: Scheduled) -> tuple[WarpProgram, ...]:
    """All registers that the thread block has are given to the wide groups, in equal steps."""
    limits = one.problem.limits
    wide = [program for program in programs if program.warps >= 4]
    narrow = -(-sum(program.warps < 4 for program in programs) // 4)
    left = launch.entry_registers * launch.threads - 128 * narrow * limits.narrow_registers
    left -= sum(32 * program.warps * program.registers for program in wide)
    step, threads = limits.register_step, sum(32 * program.warps for program in wide)
    most = limits.registers_per_thread // step * step
    more = max(0, left // (threads * step) * step) if threads else 0
    return tuple(
        replace(p, registers=min(most, p.registers + more)) if p in wide else replace(p, registers=limits.narrow_registers)
        for p in programs
    )
