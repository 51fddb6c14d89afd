"""MMAs and the waits for them, as lines of Gluon."""

from math import prod

from twill.ir.loop import MemDesc, NvidiaMma, Op, Tensor
from twill.ir.operands import Register, TensorMemory
from twill.ir.statements import (
    MbarrierArrival,
    MmaIssue,
)
from twill.ops.table import role
from twill.targets.cuda.mmas.mma import accumulates
from twill.targets.cuda.registers.elements import variable
from twill.targets.gluon.emitter import Emitter
from twill.targets.gluon.scope import (
    empty,
    safe,
)


def issue(emitter: Emitter, it: MmaIssue) -> list[str]:
    """An MMA, or a part of it along K."""
    dot = emitter.file.program.op(it.ops[-1])
    scope = emitter.begin(it.reads, it.at.iteration, shared=True)
    for index in it.ops[:-1]:
        scope.execute(emitter.file.program.op(index))
    a, b = (_part(emitter, it, dot, i, scope.text(dot.operands[i])) for i in (0, 1))
    if not isinstance(it.accumulator, Register):
        return _issue_to_tensor_memory(emitter, it, dot, it.accumulator, f"{a}, {b}")
    into = safe(variable(it.accumulator))
    assert isinstance(dot.result.type, Tensor)
    form = dot.result.type.encoding
    if isinstance(form, NvidiaMma) and prod(form.warps_per_cta) != emitter.group.warps:
        whole, own = prod(form.warps_per_cta), emitter.group.warps
        raise emitter.file.refuse(dot, f"of {whole} warps is executed by a group of {own}")
    adds = _accumulates(emitter, it)
    source = scope.zeros(dot.result.type) if adds == "False" else into
    emitter.in_flight, emitter.tokens = (*emitter.in_flight, into), emitter.tokens | {into}
    emitter.defined |= {into}
    call = f"{into} = warpgroup_mma({a}, {b}, {source}, use_acc={adds}, is_async=True)"
    return [emitter.comment(it.at.cycle, it.at.stage, it.ops, it.node), *scope.lines, call]


def _issue_to_tensor_memory(
    emitter: Emitter, it: MmaIssue, dot: Op, into: TensorMemory, operands: str
) -> list[str]:
    """Complete with arrivals on mbarriers."""
    if it.scales or role(dot) != "tensor_memory_mma" or "scaled" in dot.name:
        raise emitter.file.refuse(dot, "with scale factors is not exported")
    assert isinstance(it.completion, MbarrierArrival)
    barriers = [
        emitter.barrier(empty(one.channel), one.channel, one.iteration) for one in it.completion.slots
    ]
    barriers += [emitter.dependence(one.barrier, one.iteration) for one in it.completion.barriers]
    adds = _accumulates(emitter, it)
    tile = emitter.scope.tensor_tile(into, dot.operands[2].type)
    given = f"{operands}, {tile}, use_acc={adds}, mbarriers=[{', '.join(barriers)}]"
    head = emitter.comment(it.at.cycle, it.at.stage, it.ops, it.node)
    return [head, *emitter.scope.lines, f"tcgen05_mma({given})"]


def _part(emitter: Emitter, it: MmaIssue, dot: Op, operand: int, text: str) -> str:
    """Elements `begin` to `end` of K of an operand."""
    kind, axis = dot.operands[operand].type, 1 - operand
    assert isinstance(kind, Tensor | MemDesc)
    if (it.begin, it.end) == (0, kind.shape[axis]):
        return text
    if isinstance(kind, Tensor):
        raise emitter.file.refuse(dot, "is issued in parts, with a left operand in registers")
    return f"{text}.slice({it.begin}, {it.end - it.begin}, {axis})"


def _accumulates(emitter: Emitter, it: MmaIssue) -> str:
    """Whether an MMA adds to its accumulator."""
    return "True" if it.begin else accumulates(it, emitter.least, emitter.trips, ("False", "True"))


def wait(emitter: Emitter, pending: int) -> list[str]:
    """All accumulators in flight are named, so that Triton keeps their registers until then."""
    names = [*dict.fromkeys((*emitter.in_flight, *sorted(emitter.tokens)))]
    emitter.in_flight = emitter.in_flight[len(emitter.in_flight) - pending :] if pending else ()
    emitter.tokens = frozenset()
    if not names:
        return []
    return [f"{', '.join(names)} = warpgroup_mma_wait({pending}, deps=[{', '.join(names)}])"]


def as_tokens(emitter: Emitter, names: frozenset[str]) -> list[str]:
    """Tiles, from here on of the type that MMAs return."""
    made = sorted(names - emitter.tokens)
    emitter.tokens |= names
    return [f"{name} = warpgroup_mma_init({name})" for name in made]
