"""Thread blocks that have nothing to do return before anything is set up.

Triton's early returns are `If`s around the rest of every group's program. Where their conditions follow from
arguments and the place of the block alone, a block of which one is false needs no barriers, tensor maps or
registers of its groups: it returns at its first instructions. A condition that is loaded stays with the
groups: blocks with work to do would wait for it twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from twill.ir.loop import Scalar
from twill.ir.program import Program, Variable, WarpProgram
from twill.ir.statements import Compute, If, Statement
from twill.ops.row import Access
from twill.ops.table import lookup
from twill.targets.cuda.emitter import Emitter, indented
from twill.targets.cuda.expressions import atom
from twill.targets.cuda.statements import printed


@dataclass(frozen=True, slots=True)
class _Guard:
    """What a group computes before an `If` around all the rest of its program."""

    before: tuple[Compute, ...]
    around: If


def returned_early(
    program: Program,
    emitter: Callable[[WarpProgram], Emitter],
    declared: Callable[[Variable], Sequence[str]],
) -> list[str]:
    """The lines with which a block returns at once; nothing where none is known to be idle by that. `emitter`
    prints the statements of a group, `declared` gives the declarations of a variable. Blocks of a cluster
    wait for each other and stay."""
    if program.clustered:
        return []
    chains = [tuple(_guards(program, group.body)) for group in program.groups]
    shared = sum(1 for _ in takewhile(_one_operation, zip(*chains, strict=False)))
    found = [
        (tuple(takewhile(lambda one: _arithmetic(program, one), chain[:shared])), group)
        for chain, group in zip(chains, program.groups, strict=True)
    ]
    guards, group = max(found, key=lambda one: len(one[0]))
    if not guards:
        return []
    own, lines = emitter(group), list[str]()
    for guard in guards:
        lines += [*printed(own, guard.before), _return_unless(own, guard.around)]
    used = {write.register.variable for guard in guards for one in guard.before for write in one.writes}
    variables = [line for one in group.variables if one.id in used for line in declared(one)]
    return ["{", *indented(["// a block with nothing to do", *variables, *lines]), "}"]


def _guards(program: Program, body: tuple[Statement, ...]) -> Iterator[_Guard]:
    """The early returns of a group, the outermost first: before them it writes its variables alone."""
    while body:
        before = tuple(
            one for one in takewhile(lambda one: isinstance(one, Compute), body) if isinstance(one, Compute)
        )
        rest = body[len(before) :]
        if len(rest) != 1 or not isinstance(rest[0], If) or rest[0].otherwise:
            return
        if not all(_accesses(program, one) <= {"none", "load"} for one in before):
            return
        yield _Guard(before, rest[0])
        body = rest[0].then


def _one_operation(guards: Sequence[_Guard]) -> bool:
    return len({guard.around.op for guard in guards}) == 1


def _accesses(program: Program, it: Compute) -> set[Access]:
    """What a statement does to memory."""
    ops = [inner for index in it.ops for op in [program.op(index)] for inner in (op, *op.inner())]
    found = set[Access]({"store"} if it.stores else ())
    for row in (lookup(op.name) for op in ops):
        found.add("store" if row is None else row.access)
    return found


def _arithmetic(program: Program, guard: _Guard) -> bool:
    """Whether a condition and all that stands before it is computed from numbers that are not loaded."""
    numbers = all(
        isinstance(program.value(write.value).type, Scalar) for one in guard.before for write in one.writes
    )
    return numbers and all(_accesses(program, one) <= {"none"} for one in guard.before)


def _return_unless(emitter: Emitter, it: If) -> str:
    scope = emitter.scope([it.condition] if it.condition else [])
    return f"if (!{atom(scope.scalar(emitter.program.op(it.op).operands[0]))}) return;"
