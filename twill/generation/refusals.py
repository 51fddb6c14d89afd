"""Everything in a kernel that can not be generated, found before its loops are scheduled.

Takes the loops of a kernel with their graphs; gives one error for each operation, with its line, what it
means and a way out. What depends on the schedule (which group holds a value, how many registers are left) is
refused when the kernel is lowered.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from twill.diagnostics import TwillError
from twill.inputs import Case
from twill.ir.loop import Loop, Module, Op
from twill.ops.table import lookup, role
from twill.targets import target
from twill.warp import non_loop_code, stored_before, tasks
from twill.warp.dataflow import EFFECTS, NOTHING, Code, read

MEANING: Mapping[str, tuple[str, str]] = {
    "scf.while": ("a while loop", "write a for loop over a range that is known when it begins"),
    "tt.join": ("tl.join, tl.interleave", "store the parts apart, or as two dots"),
    "tt.split": ("tl.split", "load the parts apart"),
    "tt.print": ("tl.device_print", "remove it"),
    "tt.assert": ("tl.device_assert", "compile without debug=True"),
    "tt.elementwise_inline_asm": ("PTX from outside", "write it with Triton's operations"),
    "tt.extern_elementwise": (
        "a function of a device library",
        "use tl.math, or write it with Triton's operations",
    ),
    "tt.atomic_cas": ("tl.atomic_cas", "move it out of the innermost loop"),
    "tt.atomic_rmw": ("tl.atomic_add and the like", "move it out of the innermost loop, or leave the result"),
    "ttg.barrier": ("tl.debug_barrier()", "remove it, or load what is stored in a kernel of its own"),
    "gpu.barrier": ("tl.debug_barrier()", "remove it, or load what is stored in a kernel of its own"),
    "tt.call": ("a function that is not inlined", "let it return at one place"),
}
"""What an operation is in the kernel's source, and what to do where it can not be generated."""


def refusals(cases: Sequence[Case]) -> Iterator[TwillError]:
    """Of all loops of one kernel together, and of the code around them."""
    module = cases[0].module
    loops = [case.loop for case in cases if case.loop is not None]
    if module is None or not loops:
        return
    code = read(module, loops[0].function)
    inside = {op.index for loop in loops for op in loop.op.inner()} | {loop.op.index for loop in loops}
    plain = [op for op in code.ops.values() if op.index not in inside]
    around: dict[int, Loop] = {loop.op.index: loop for loop in loops}
    found = [*non_loop_code.refusals(code, plain, around)]
    found += [error for case in cases if case.graph for error in tasks.refusals(code, case.graph)]
    found += stored_before.refusals(code, loops)
    found += _without_text(code)
    found += _ordering_barriers(code, loops)
    found += _called(module, {loop.function.name for loop in loops})
    found += _by_the_target(code, cases)
    parts = {op.location for op in code.ops.values() if role(op) in ("condition", "combine")}
    yield from (_explained(error, code) for error in found if error.location not in parts)


def _called(module: Module, functions: Set[str]) -> Iterator[TwillError]:
    """Calls of functions with loops, which were not inlined: the kernel is what calls them."""
    for caller in module.functions:
        code = read(module, caller)
        for op in code.ops.values():
            if op.name == "tt.call" and functions & set(op.symbols):
                yield code.refuse("tt.call of a function with loops can not be generated", op)


def _by_the_target(code: Code, cases: Sequence[Case]) -> Iterator[TwillError]:
    """What the target's instructions do not do."""
    machine = cases[0].machine
    for op in code.ops.values() if machine else ():
        reason = target(machine.arch).unsupported(op) if machine else None
        if reason:
            yield code.refuse(f"{op.name} {reason}", op)


def _ordering_barriers(code: Code, scheduled: Sequence[Loop]) -> Iterator[TwillError]:
    """Barriers of the threads of a program behind stores, also those of an earlier iteration: what is loaded
    after one may be what another group stored. Those to which all groups come are executed; all groups
    synchronize around a scheduled loop that has one, and in it nothing is loaded that it has stored. None is
    refused where nothing that is stored is read."""
    if not stored_before.reads_back(code):
        return
    executed = stored_before.ordering(code, scheduled)
    atomic = any(role(op) in stored_before.ATOMIC for op in code.ops.values())
    inside = {op.index for loop in scheduled for op in loop.op.inner()} if not atomic else set[int]()
    loops = [op for op in code.ops.values() if role(op) in ("for", "while")]
    stores = [op.index for op in code.ops.values() if op.name in EFFECTS]
    for op in (op for op in code.ops.values() if role(op) == "barrier"):
        if op.index in executed or op.index in inside:
            continue
        around = [loop for loop in loops if any(inner.index == op.index for inner in loop.inner())]
        repeated = {inner.index for loop in around for inner in loop.inner()}
        if any(store < op.index or store in repeated for store in stores):
            yield code.refuse(f"{op.name} behind a store can not be generated", op)


def _without_text(code: Code) -> Iterator[TwillError]:
    """Elementwise operations without a C expression for their types."""
    combining = {
        op.index
        for outer in code.ops.values()
        if outer.name in ("tt.reduce", "tt.scan")
        for op in outer.inner()
    }
    for op in code.ops.values():
        if op.index not in combining and _used(code, op) and not _expressible(op):
            yield code.refuse(f"{op.name} can not be generated for these types", op)


def _used(code: Code, op: Op) -> bool:
    users: Iterable[Op] = (user for result in op.results for user in code.users.get(result.id, ()))
    return any(user.name not in NOTHING for user in users)


def _expressible(op: Op) -> bool:
    """False for an elementwise operation that has no text; anything else is not judged here."""
    row = lookup(op.name)
    if row is None:
        return not op.name.startswith(("arith.", "math."))
    if row.kind != "elementwise" or row.role != "value" or op.regions:
        return True
    return row.c is not None and row.c(op, ["{}"] * len(op.operands)) is not None


def _explained(error: TwillError, code: Code) -> TwillError:
    """With what the operation means, where that is known."""
    name = next((op.name for op in code.ops.values() if op.location == error.location), "")
    if error.help or name not in MEANING:
        return error
    what, way_out = MEANING[name]
    return TwillError(
        f"{error.message} ({what})", error.location, text=error.text, span=len(name), help=way_out
    )
