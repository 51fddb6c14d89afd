"""The loops of a module: their names, and whether they can be scheduled.

Takes a `Module`; gives every `scf.for` and `scf.while` of every function in the order of the text. A loop
that is not scheduled says why, with the line of the reason. Raises TwillError where a loop carries values
without yielding them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from twill.diagnostics import TwillError
from twill.extract.dependence.frequency import most_trips
from twill.ir.loop import Block, Carried, Function, Loop, Module, Op, Refusal, Value
from twill.ops.table import is_mma, pipelined, role

NOTHING_TO_SCHEDULE = "loops with a dot (tl.dot) are scheduled; other kernels are best left to Triton"
"""What to do about a loop without one."""
LOOPS = ("for", "while")
"""Roles of loops, which are also their names in paths."""

STAGES = ("loop.stage", "loop.cluster")
BEFORE = (
    "give what Triton has before it schedules: the .ttir of the same kernel (in Triton's cache),"
    " FILE.py:FUNCTION, or what MLIR_ENABLE_DUMP=1 prints"
)
"""How to get a loop that has not been scheduled."""
LONGEST = 100
"""Bytes of a function's name in the path of a loop."""
PARTITIONS = ("ttg.partition", "async_task_id")


def loops(module: Module) -> tuple[Loop, ...]:
    """Every loop of `module`, an outer one before those inside it."""
    return tuple(loop for function in module.functions for loop in in_function(module, function))


def in_function(module: Module, function: Function) -> Iterator[Loop]:
    for block in function.body.blocks if function.body else ():
        yield from Finder(module, function).inside(block, short(function.name), 0, specialized=False)


def short(name: str) -> str:
    """A function's name as the paths of its loops begin: folders are named so. A name that was made of all
    types and constants is cut and ends with a digest of the whole."""
    if len(name.encode()) <= LONGEST:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: LONGEST - len(digest) - 1].decode(errors='ignore')}_{digest}"


@dataclass(frozen=True, slots=True)
class Finder:
    """Walks one function."""

    module: Module
    function: Function

    def inside(self, block: Block, path: str, depth: int, *, specialized: bool) -> Iterator[Loop]:
        """The loops of `block`, numbered from 0 within the loop or function that `path` names."""
        for number, (op, partitioned) in enumerate(nearest(block, specialized)):
            loop = self.loop(op, f"{path}/{role(op)}.{number}", depth, partitioned)
            yield loop
            yield from self.inside(loop.body, loop.path, depth + 1, specialized=partitioned)

    def loop(self, op: Op, path: str, depth: int, specialized: bool) -> Loop:
        counted = role(op) == "for"
        body = self.body(op)
        lower, upper, step = op.operands[:3] if counted else (None, None, None)
        return Loop(
            path=path,
            function=self.function,
            op=op,
            depth=depth,
            innermost=not any(role(inner) in LOOPS for inner in body.walk()),
            tensor_ops=tuple(inner for inner in body.walk() if is_mma(inner)),
            induction=body.args[0] if counted else None,
            lower=lower,
            upper=upper,
            step=step,
            carried=self.carried(op, body),
            body=body,
            refusal=clustered(self.module, self.function, op) or refusal(op, body, specialized),
            most_trips=most_trips(self.function, op) if counted else None,
        )

    def body(self, op: Op) -> Block:
        """The block that repeats. Only the generic form, in quotes, can lack it or its arguments."""
        blocks = op.regions[-1].blocks if op.regions else ()
        if len(blocks) != 1 or (role(op) == "for" and (len(op.operands) < 3 or not blocks[0].args)):
            raise self.error(op, f"{op.name} lacks its bounds or its body")
        return blocks[0]

    def carried(self, op: Op, body: Block) -> tuple[Carried, ...]:
        """Arguments, initial values, yields and results of an `scf.for`, one by one."""
        if role(op) != "for":
            return ()
        inits, args = op.operands[3:], body.args[1:]
        last = body.ops[-1] if body.ops and role(body.ops[-1]) == "yield" else None
        yielded = last.operands if last else ()
        if not len(inits) == len(args) == len(yielded) == len(op.results):
            raise self.error(
                last or op,
                f"the loop carries {len(inits)} values, yields {len(yielded)} and gives {len(op.results)}",
            )
        tied = tuple(map(Carried, args, inits, yielded, op.results))
        odd = next(
            (c for c in tied if not c.arg.type == c.init.type == c.yielded.type == c.result.type), None
        )
        if odd:
            raise self.error(last or op, f"`{odd.arg.name}` is carried with different types")
        return tied

    def error(self, op: Op, message: str) -> TwillError:
        line = self.module.text.split("\n")[op.location.line - 1]
        return TwillError(message, op.location, text=line, span=len(op.name))


def nearest(block: Block, specialized: bool) -> Iterator[tuple[Op, bool]]:
    """Loops of `block` that are inside no other loop of it, and whether warps have been specialized around
    them."""
    for op in block.ops:
        if role(op) in LOOPS:
            yield op, specialized
        else:
            for inner in (block for region in op.regions for block in region.blocks):
                yield from nearest(inner, specialized or role(op) == "specialize")


# --- what cannot be scheduled -----------------------------------------------------------------------------


def refusal(op: Op, body: Block, specialized: bool) -> Refusal | None:
    """Why the loop `op` is not scheduled, the plainest reason first; None where it is."""
    inner = tuple(body.walk())
    reasons = (
        not_counted(op),
        outer(inner),
        specialization(op, inner, specialized),
        idle(op, inner),
        scheduled(inner),
        asynchronous(inner),
        rotating(inner),
    )
    return next((reason for reason in reasons if reason), None)


def clustered(module: Module, function: Function, op: Op) -> Refusal | None:
    """Thread blocks that share tiles: the module says how many, or the function does."""
    own = function.attributes.get("ttg.num-ctas", 1)
    blocks = max(module.num_ctas, int(own) if isinstance(own, int) else 1)
    reason = (
        f"its kernel runs on clusters of {blocks} thread blocks (ttg.num-ctas); loops of single thread blocks"
        " are scheduled"
    )
    return Refusal(reason, op.location) if blocks > 1 else None


def not_counted(op: Op) -> Refusal | None:
    if role(op) == "for":
        return None
    return Refusal("how often a while loop runs is not known when an iteration starts", op.location)


def outer(inner: tuple[Op, ...]) -> Refusal | None:
    loop = next((op for op in inner if role(op) in LOOPS), None)
    return loop and Refusal(
        f"it contains the loop on line {loop.location.line}; only innermost loops are scheduled",
        loop.location,
    )


def idle(op: Op, inner: tuple[Op, ...]) -> Refusal | None:
    if any(is_mma(op) for op in inner):
        return None
    return Refusal(
        "it has no tensor core work",
        op.location,
        NOTHING_TO_SCHEDULE,
    )


def specialization(op: Op, inner: tuple[Op, ...], specialized: bool) -> Refusal | None:
    """Warps that are already specialized: around the loop, or by attributes on its operations."""
    if specialized:
        return Refusal(
            "it is already warp-specialized: it stands in a partition of ttg.warp_specialize",
            op.location,
            BEFORE,
        )
    marked = next(
        ((inner, name) for inner in (op, *inner) for name in PARTITIONS if name in inner.attributes), None
    )
    return marked and Refusal(
        f"it is already warp-specialized: {marked[0].name} carries {marked[1]}", marked[0].location, BEFORE
    )


def scheduled(inner: tuple[Op, ...]) -> Refusal | None:
    marked = next(((op, name) for op in inner for name in STAGES if name in op.attributes), None)
    return marked and Refusal(
        f"it already has a schedule: {marked[0].name} carries {marked[1]}", marked[0].location, BEFORE
    )


def asynchronous(inner: tuple[Op, ...]) -> Refusal | None:
    op = next((op for op in inner if pipelined(op)), None)
    return op and Refusal(f"it is already pipelined: {op.name} {pipelined(op)}", op.location, BEFORE)


def rotating(inner: tuple[Op, ...]) -> Refusal | None:
    """A slot, chosen in each iteration, of a buffer that outlives the iterations."""
    made = {value for op in inner for value in op.results}
    op = next((op for op in inner if role(op) == "buffer_index" and rotates(op, made)), None)
    return op and Refusal(
        "it is already pipelined: it walks through the slots of a buffer", op.location, BEFORE
    )


def rotates(op: Op, made: set[Value]) -> bool:
    """Whether `op` picks a slot of a buffer from outside by an index that is not constant."""
    buffer, *index = op.operands
    return buffer not in made and any(value in made or value.producer is None for value in index)
