"""From loops with their joint schedules to a program for every group of warps.

Takes a module and its scheduled loops (of one function); gives a `Program` (`ir.program` says what it means).
Everything follows from the schedules: the order of statements from the start times, channels from the groups,
waits from the dependences. Raises TwillError, with the operation and its line, for what can not be lowered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.diagnostics import TwillError
from twill.ir.effects import effects, registers
from twill.ir.loop import Module, Type
from twill.ir.program import (
    Compute,
    Descriptor,
    InitializeCarried,
    Launch,
    MmaIssue,
    OrderBarrier,
    Pipelined,
    Program,
    Statement,
    Variable,
    WarpProgram,
    walk,
)
from twill.ir.schedule import Group as Granted
from twill.targets.hopper.fragments import scratch
from twill.warp.channels import merged, of_loop
from twill.warp.dataflow import STORES, Code, cone, read, variables
from twill.warp.deferred_reductions import DeferredReductions, deferred_reductions
from twill.warp.group_bodies import Body, statements
from twill.warp.non_loop_code import NonLoopCode, plan
from twill.warp.ordering import HandOff, ahead, hand_offs
from twill.warp.pipelined_loops import pipelined, shifted
from twill.warp.shared_memory import SharedMemoryPlan, layout
from twill.warp.steady_state import Group, Settings, is_mma
from twill.warp.tasks import Scheduled, Task, tasks


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen."""

    depths: Mapping[str, int] = field(default_factory=dict[str, int])
    """Slots of channels, by name; the others get as many as shared memory allows."""
    most: int = 8
    """Slots of a channel at most."""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True, eq=False)
class _Loop:
    scheduled: Scheduled
    tasks: tuple[Task, ...]
    hand_offs: tuple[tuple[str, HandOff], ...]


def lower(module: Module, loops: Sequence[Scheduled], options: Options | None = None) -> Program:
    """The program of the function that the loops are in."""
    options = options or Options()
    code = read(module, loops[0].loop.function)
    names = variables(code, [one.loop for one in loops])
    parts = _loops(code, aligned(code, loops, names))
    granted = _granted(parts)
    loader = _loader(parts)
    inside = [(part.scheduled, part.tasks) for part in parts]
    non_loop = plan(code, inside, [group.id for group in granted], loader)
    channels = (*non_loop.channels, *merged(of_loop(code, *pair) for pair in inside))
    stored = {task.ops[-1]: task.group for part in parts for task in part.tasks if code.ops[task.ops[-1]].name in STORES}
    scratch_bytes = {group.id: _scratch(code, parts, non_loop, group.id) for group in granted}
    memory = layout(code, channels, non_loop, stored, scratch_bytes, _limit(loops[0]), options.depths, options.most)
    deferred = deferred_reductions(code, inside)
    groups = [_groups(code, part, granted, memory, names, options.settings, own) for part, own in zip(parts, deferred, strict=True)]
    lowered = [pipelined(own) for own in groups]
    finalizers = {value: op for own in deferred for value, op in own.finalized.items()}
    programs = [_warps(code, group, non_loop, memory, names, parts, lowered, granted, finalizers) for group in granted]
    launch = _launch(granted, loops[0])
    programs = _registers(programs, launch, loops[0])
    notes = tuple(_notes(parts, memory))
    return Program(
        module,
        code.function,
        programs,
        memory.channels,
        _orders(parts, groups),
        memory.buffers,
        _descriptors(code),
        memory.memory,
        launch,
        notes,
    )


def _loops(code: Code, loops: Sequence[Scheduled]) -> tuple[_Loop, ...]:
    found = list[_Loop]()
    for one in loops:
        made = tasks(code, one)
        passed = hand_offs(one, tuple(task for task in made if is_mma(code, task)))
        begin = sum(len(other.hand_offs) for other in found)
        found.append(_Loop(one, made, tuple((f"hand_off{begin + i}", hand_off) for i, hand_off in enumerate(passed))))
    return tuple(found)


def _granted(parts: Sequence[_Loop]) -> tuple[Granted, ...]:
    """The groups of all loops, with the most registers that any of them needs."""
    found = dict[int, Granted]()
    for group in (group for part in parts for group in part.scheduled.solution.groups):
        old = found.get(group.id, group)
        found[group.id] = replace(old, warps=max(old.warps, group.warps), registers=max(old.registers, group.registers))
    return tuple(found[key] for key in sorted(found))


def _scratch(code: Code, parts: Sequence[_Loop], non_loop: NonLoopCode, group: int) -> int:
    """Bytes that a group needs for what its threads exchange: of the operation that needs most. A layout that
    is only changed on the way to shared memory or into it costs nothing."""
    inside = {op.index for part in parts for op in part.scheduled.loop.op.inner()}
    tasks = [task for part in parts for task in part.tasks if task.group == group and task.node.kind != "shared_store"]
    ops = [code.ops[index] for task in tasks for index in task.ops]
    ops += [op for op in code.ops.values() if op.index not in inside and any(value.id in non_loop.needs[group] for value in op.results)]
    ops += [inner for op in ops if op.name != "scf.for" for inner in op.inner()]
    leaving = {maker.index for op in code.ops.values() if op.name in STORES for value in op.operands if (maker := code.maker(value))}
    return max((scratch(op) for op in ops if op.index not in leaving), default=0)


def _loader(parts: Sequence[_Loop]) -> int:
    streaming = (task.group for part in parts for task in part.tasks if task.node.kind == "load")
    return next(streaming, 0)


def _limit(one: Scheduled) -> int:
    """Bytes of shared memory that a thread block may have; the problem's limit is without the tiles that stay
    during the loop."""
    resident = sum(invariant.tile.bytes for invariant in one.graph.invariants if invariant.tile.place == "shared")
    return one.problem.limits.shared + resident


# --- several loops ----------------------------------------------------------------------------------------------------


def aligned(code: Code, loops: Sequence[Scheduled], names: Mapping[int, str]) -> tuple[Scheduled, ...]:
    """The loops with their groups numbered alike: a variable carried through several stays in one group.

    Raises TwillError where no numbering does that.
    """
    homes = dict[str, int]()
    found = list[Scheduled]()
    for one in loops:
        kept = carried(code, one, names)
        mapping = dict[int, int]()
        for name, group in kept.items():
            if mapping.setdefault(group, homes.get(name, group)) != homes.get(name, mapping[group]):
                raise _torn(code, one, name)
        if len(set(mapping.values())) < len(mapping):
            raise _torn(code, one, next(iter(kept)))
        free = [group.id for group in loops[0].solution.groups if group.id not in mapping.values()]
        rest = sorted(group.id for group in one.solution.groups if group.id not in mapping)
        mapping.update(zip(rest, [*free, *range(100, 100 + len(rest))], strict=False))
        found.append(_renumbered(one, mapping))
        homes |= {name: mapping[group] for name, group in kept.items()}
    return tuple(found)


class TornError(TwillError):
    """A variable carried through several loops would change its group between them."""


def _torn(code: Code, one: Scheduled, name: str) -> TornError:
    line = code.module.text.splitlines()[one.loop.location.line - 1]
    return TornError(f"{name} would change its group between two loops", one.loop.location, text=line)


def carried(code: Code, one: Scheduled, names: Mapping[int, str]) -> dict[str, int]:
    """The group of every variable that the loop carries."""
    writers = {value.id: node.id for node in one.graph.nodes for index in node.ops for value in code.ops[index].results}
    return {names[c.arg.id]: one.group(writers[c.yielded.id]) for c in one.loop.carried if c.yielded.id in writers}


def _renumbered(one: Scheduled, mapping: Mapping[int, int]) -> Scheduled:
    solution = one.solution
    groups = tuple(sorted((replace(group, id=mapping[group.id]) for group in solution.groups), key=lambda group: group.id))
    return replace(one, solution=replace(solution, group=tuple(mapping[group] for group in solution.group), groups=groups))


# --- groups -----------------------------------------------------------------------------------------------------------


def _groups(
    code: Code,
    part: _Loop,
    granted: Sequence[Granted],
    memory: SharedMemoryPlan,
    names: Mapping[int, str],
    settings: Settings,
    deferred: DeferredReductions,
) -> list[Group]:
    """The groups in a loop, each with its interval begun where it is best, if the signals between them allow
    that."""
    groups = [
        Group(code, part.scheduled, part.tasks, group.id, memory.plans, part.hand_offs, names, memory.stores, settings, deferred.tasks)
        for group in granted
    ]
    found = [shifted(group) for group in groups]
    shifts = {group.id: group.shift for group in found}
    return found if all(ahead(part.scheduled, hand_off, shifts) in (0, 1) for _, hand_off in part.hand_offs) else groups


def _warps(
    code: Code,
    group: Granted,
    non_loop: NonLoopCode,
    memory: SharedMemoryPlan,
    names: Mapping[int, str],
    parts: Sequence[_Loop],
    lowered: Sequence[tuple[Pipelined, ...]],
    granted: Sequence[Granted],
    finalizers: Mapping[int, int],
) -> WarpProgram:
    position = list(granted).index(group)
    loops = {part.scheduled.loop.op.index: (part.scheduled.loop, made[position]) for part, made in zip(parts, lowered, strict=True)}
    body = statements(Body(code, group.id, non_loop, memory.plans, names, loops, memory.stores, memory.overlaid, finalizers))
    return WarpProgram(group.id, group.warps, _first_warp(group, granted), group.registers, _variables(code, names, body), body)


def _first_warp(group: Granted, granted: Sequence[Granted]) -> int:
    """Wide groups first, then the narrow ones side by side."""
    wide = [other for other in granted if other.warps >= 4]
    if group in wide:
        return sum(other.warps for other in wide[: wide.index(group)])
    narrow = [other for other in granted if other.warps < 4]
    return sum(other.warps for other in wide) + narrow.index(group)


def _variables(code: Code, names: Mapping[int, str], body: tuple[Statement, ...]) -> tuple[Variable, ...]:
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
            case MmaIssue(ops=ops, accumulator=accumulator):
                types[accumulator.variable] = code.ops[ops[-1]].result.type
            case InitializeCarried(value=value, register=register):
                types[register.variable] = values[value].type
            case _:
                pass
    return tuple(Variable(name, types[name], ages[name]) for name in sorted(types))


def _launch(granted: Sequence[Granted], one: Scheduled) -> Launch:
    wide = sum(group.warps for group in granted if group.warps >= 4)
    narrow = -(-sum(group.warps < 4 for group in granted) // 4)
    threads = 32 * (wide + 4 * narrow)
    step = one.problem.limits.register_step
    most = one.problem.limits.registers_per_thread // step * step
    return Launch(threads, min(most, one.problem.limits.registers_total // threads // step * step))


def _registers(programs: Sequence[WarpProgram], launch: Launch, one: Scheduled) -> tuple[WarpProgram, ...]:
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


def _orders(parts: Sequence[_Loop], groups: Sequence[Sequence[Group]]) -> tuple[OrderBarrier, ...]:
    found = list[OrderBarrier]()
    for part, own in zip(parts, groups, strict=True):
        shifts = {group.id: group.shift for group in own}
        for order, h in part.hand_offs:
            found.append(OrderBarrier(order, len(found) + 1, h.signaller, h.waiter, ahead(part.scheduled, h, shifts) == 1))
    return tuple(found)


def _descriptors(code: Code) -> tuple[Descriptor, ...]:

    made = [op for op in code.ops.values() if op.name == "tt.make_tensor_descriptor"]
    found = list[Descriptor]()
    for op in made:
        ops, _ = cone(code, [op], lambda value: False)
        for index in ops:
            if code.ops[index].name in ("tt.get_program_id", "tt.load"):
                raise code.refuse("a descriptor must follow from the kernel's arguments alone", op)
        found.append(Descriptor(ops))
    return tuple(found)


def _notes(parts: Sequence[_Loop], memory: SharedMemoryPlan) -> Iterable[str]:
    for channel in memory.channels:
        yield f"channel {channel.id}: {channel.depth} slots of {channel.stride} bytes, group {channel.producer} to {channel.consumers}"
    for buffer in memory.buffers:
        where = f"in the slots of {buffer.overlays}: {buffer.reason}" if buffer.overlays else "of its own"
        yield f"buffer {buffer.id}: {buffer.bytes} bytes, {where}"
    for part in parts:
        for order, hand_off in part.hand_offs:
            yield f"{order}: {hand_off.before} of group {hand_off.waiter} after {hand_off.after} of group {hand_off.signaller}"
