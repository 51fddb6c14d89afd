"""Tiles that loops store and that pass through shared memory on the way: stored as they are laid out.

A tile in an exact layout (a transposed accumulator) that is stored goes through shared memory to lie as an
accumulator does, of whose rows four threads then exchange words for accesses of 16 bytes: of 16 x 64 elements
of 16 bits a warp makes 48 selections and 16 shuffles. Read from shared memory as Triton lays it out, it comes
in these 16 bytes. Takes a module whose exact layouts are marked (`literal_layouts`); gives the same in which
such stores have exact layouts of their own, whose aliases stand at the end; pointers and masks are computed
there. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.layouts.as_accumulators import as_accumulator
from twill.extract.rewrite.layouts.literal_layouts import ACCESS, exact_text, in_lines
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.extract.validate import valid
from twill.ir.distribution import distribution
from twill.ir.loop import Blocked, Linear, Module, Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis, moved_together
from twill.ops.row import Role
from twill.ops.table import is_elementwise, named, role

_COMPUTED: tuple[Role, ...] = ("constant", "range", "splat", "broadcast", "expand", "layout")
"""What each thread computes for any element, beside operations element by element."""


def stored_lines(module: Module) -> Module:
    """The module itself where there are none. In innermost loops with MMAs: other stores are a small part."""
    inner = [one for one in loops(module) if one.innermost and one.tensor_ops]
    repeated = {op.index for one in inner for op in one.op.inner()}
    aliases, edits = dict[Blocked, str](), list[Edit]()
    for function in (one for one in module.functions if valid(module, one)):
        makers, users = makers_of(function.walk()), function.users()
        stores = [op for op in function.walk() if op.index in repeated and role(op) == "pointer_store"]
        changes = [(op, _change(makers, users, op, module.num_warps)) for op in stores]
        found = [(op, change) for op, change in changes if change is not None]
        analysis = AxisAnalysis(function) if found else None
        for op, change in found:
            if analysis and moved_together(analysis, op.operands[0], op.operands[2:], 1) == ACCESS // 8:
                edits += _edits(module, aliases, op, change)
    end = len(module.text)
    edits += [Edit(end, end, f"\n{name} = {exact_text(one)}\n") for one, name in aliases.items()]
    return edited(module, edits)


def _change(makers: Makers, users: Mapping[int, Sequence[Op]], op: Op, warps: int) -> Op | None:
    """The change of layout that makes a tile for this store alone: from an exact layout, of elements that
    change threads either way, to one whose lanes have whole lines, in which threads compute all else."""
    change = makers.of(op.operands[1], "layout")
    if change is None or len(users[change.result.id]) != 1:
        return None
    source, result = change.operands[0].type, change.result.type
    if not isinstance(source, Tensor) or not isinstance(result, Tensor) or not in_lines(result):
        return None
    if not isinstance(source.encoding, Linear) or not source.encoding.exact:
        return None
    laid, held = distribution(source.encoding, source.shape), as_accumulator(source.shape, warps)
    passes = laid and held and not laid.moves_nothing_to(held)
    computed = all(_computed(makers, one) for one in op.operands if one is not op.operands[1])
    return change if passes and computed else None


def _computed(makers: Makers, value: Value) -> bool:
    """Whether each thread can compute any element of a tile, or of a scalar all that it follows from."""
    if not isinstance(value.type, Tensor):
        return True
    maker = makers.by_value.get(value.id)
    if maker is None or not (role(maker) in _COMPUTED or is_elementwise(maker)):
        return False
    return all(_computed(makers, one) for one in maker.operands)


def _edits(module: Module, aliases: dict[Blocked, str], store: Op, change: Op) -> Iterator[Edit]:
    layout = change.result.type.encoding if isinstance(change.result.type, Tensor) else None
    texts = [type_text(module, value.type) for value in store.operands]
    if not isinstance(layout, Blocked) or None in texts:
        return
    old = next(name for name, one in module.encodings.items() if one == layout)
    new = aliases.setdefault(layout, f"{old}_stored")

    def laid(text: str) -> str:
        return text.replace(f", {old}>", f", {new}>")

    before, text = "", laid(text_of(module, store))
    for i, (value, kind) in enumerate(zip(store.operands, texts, strict=True)):
        if i == 1:
            continue
        name = f"{value.name}_stored{store.index}"
        before += f"{name} = {named('layout')} {value.name} : {kind} -> {laid(kind or '')} {UNKNOWN} "
        text = mentions(value.name).sub(name, text)
    yield Edit(store.span.start, store.span.end, before + text)
    yield Edit(change.span.start, change.span.end, laid(text_of(module, change)))
