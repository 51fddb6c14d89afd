"""Tiles that groups which compute load for shared memory alone: loaded as they are laid out.

Held as an MMA has it, such a tile passes through four lanes before 16 bytes of it lie side by side (shuffles
and selections), and bytes or columns never do: a thread loads them one by one. Triton lays it out in accesses
of 16 bytes, which go to shared memory as they come. A left operand that a thread may keep in registers beside
its accumulators stays as MMAs have it (`warp.resident`). Takes a module whose exact layouts are marked
(`literal_layouts`); gives the same with these loads in exact layouts of their own, whose aliases stand at the
end; what addresses and masks follow from is computed there. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence

from twill.extract.dependence.loops import loops
from twill.extract.dependence.tiles import registers_of
from twill.extract.rewrite.layouts.literal_layouts import exact_text
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, mentions, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Blocked, Loop, Module, Op, Tensor
from twill.ir.problem import Limits
from twill.ops.table import named, role
from twill.ops.values import element

AROUND = 2
"""Registers around MMAs for each one of their accumulators: what is computed from one is live beside it.
(With 64 for scores, 64 for the output and 32 for queries of FastVideo's sliding tiles, ptxas spilled 1212
bytes.)"""


def staged_loads(module: Module) -> Module:
    """The module itself where there are none. Innermost loops with MMAs have their tiles loaded ahead."""
    inner = [one for one in loops(module) if one.innermost and one.tensor_ops]
    copied = {op.index for one in inner for op in one.op.inner()}
    aliases, edits = dict[Blocked, str](), list[Edit]()
    for function in module.functions:
        users = function.users()
        loads = (op for op in function.walk() if role(op) == "pointer_load" and op.index not in copied)
        loads = [op for op in loads if len(op.results) == 1 and _staged(users, op)]
        left = {op.index for op in loads if _left(users, op)}
        kept = sum(registers_of(op.result) for op in loads if op.index in left)
        full = kept + AROUND * max(map(_accumulators, inner), default=0) > Limits().registers_per_thread
        for op in loads:
            edits += _edits(module, aliases, op, users) if full or op.index not in left else ()
    end = len(module.text)
    edits += [Edit(end, end, f"\n{name} = {exact_text(one)}\n") for one, name in aliases.items()]
    return edited(module, edits)


def _staged(users: Mapping[int, Sequence[Op]], load: Op) -> bool:
    """Whether only shared memory gets a loaded tile, whose layout is none of those that are exact."""
    kind, read = load.result.type, users.get(load.result.id, ())
    blocked = isinstance(kind, Tensor) and len(kind.shape) == 2 and isinstance(kind.encoding, Blocked)
    return blocked and bool(read) and all(role(op) == "alloc" and op.results for op in read)


def _left(users: Mapping[int, Sequence[Op]], load: Op) -> bool:
    """Whether a tile is the left operand of MMAs and nothing else, in elements that these take from
    registers."""
    kind = load.result.type
    readers = [(read, op.result) for op in users[load.result.id] for read in users.get(op.result.id, ())]
    only = bool(readers) and all(
        role(read) == "wgmma" and read.operands[0] is buffer for read, buffer in readers
    )
    return only and isinstance(kind, Tensor) and element(kind) in ("f16", "bf16")


def _accumulators(loop: Loop) -> int:
    """Registers of a thread for what the MMAs of a loop add to."""
    return sum(registers_of(op.result) for op in loop.tensor_ops if role(op) == "wgmma" and op.results)


def _edits(
    module: Module, aliases: dict[Blocked, str], load: Op, users: Mapping[int, Sequence[Op]]
) -> Iterator[Edit]:
    layout = load.result.type.encoding if isinstance(load.result.type, Tensor) else None
    texts = [type_text(module, value.type) for value in (*load.operands, load.result)]
    if not isinstance(layout, Blocked) or None in texts:
        return
    old = next(name for name, one in module.encodings.items() if one == layout)
    new = aliases.setdefault(layout, f"{old}_staged")

    def laid(text: str) -> str:
        return text.replace(f", {old}>", f", {new}>")

    before, text = "", laid(text_of(module, load))
    for i, (value, kind) in enumerate(zip(load.operands, texts, strict=False)):
        name = f"{load.result.name}_staged{i}"
        before += f"{name} = {named('layout')} {value.name} : {kind} -> {laid(kind or '')} {UNKNOWN} "
        text = mentions(value.name).sub(name, text)
    yield Edit(load.span.start, load.span.end, before + text)
    for op in users[load.result.id]:
        yield Edit(op.span.start, op.span.end, laid(text_of(module, op)))
