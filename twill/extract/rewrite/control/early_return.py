"""Early returns as structured control flow.

Triton writes `if condition: ...; return` as `cf.cond_br` to a block that returns and a block with the rest of
the kernel; where both branches have returns in them, they end in `cf.br` to a block that does nothing else.
Takes a module; gives the same with an `scf.if` in place of each such branch, which lowering follows like any
other. Every other block must have one predecessor, as Triton makes them; other control flow, also of
functions that return values, is left as it is, and lowering refuses it with its line. Lines stay where they
are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from re import findall

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, text_of
from twill.ir.loop import Block, Function, Module
from twill.ops.table import named

_BRANCH, _JUMP, _RETURN = "cf.cond_br", "cf.br", named("return")
_LABEL = r"\^[\w$.-]+"


def structured(module: Module) -> Module:
    """The module with its early returns as `scf.if`."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


@dataclass(frozen=True, slots=True)
class _Flow:
    """The blocks of a function, and where each goes on."""

    module: Module
    blocks: tuple[Block, ...]
    successors: tuple[tuple[int, ...], ...]


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    blocks = function.body.blocks if function.body and not function.results else ()
    if len(blocks) < 2 or not all(block.ops for block in blocks) or any(block.args for block in blocks[1:]):
        return
    flow = _flow(module, blocks)
    order = tuple(i for i in range(len(blocks)) if not _returns(flow, i))
    if _tree(flow) and tuple(_preorder(flow, 0)) == order:
        last = blocks[-1].ops[-1].span
        yield Edit(blocks[0].ops[0].span.start, last.start, _text(flow, 0))
        yield Edit(last.start, last.end, _RETURN)


def _flow(module: Module, blocks: tuple[Block, ...]) -> _Flow:
    names = ["", *(findall(_LABEL, _gap(module, one, other))[-1:] for one, other in pairwise(blocks))]
    numbers = {name[0]: i for i, name in enumerate(names) if name}
    targets = (findall(_LABEL, text_of(module, block.ops[-1])) for block in blocks)
    flow = _Flow(
        module, blocks, tuple(tuple(numbers[name] for name in found if name in numbers) for found in targets)
    )
    return replace(
        flow, successors=tuple(() if _ends(flow, i) else flow.successors[i] for i in range(len(blocks)))
    )


def _gap(module: Module, one: Block, other: Block) -> str:
    """The label of a block without what follows it (the list of predecessors), and what stands before it."""
    text = module.text[one.ops[-1].span.end : other.ops[0].span.start]
    return text.partition("//")[0]


def _ends(flow: _Flow, block: int) -> bool:
    """It goes on to a block that only returns."""
    found = flow.successors[block]
    return flow.blocks[block].ops[-1].name == _JUMP and len(found) == 1 and _returns(flow, found[0])


def _returns(flow: _Flow, block: int) -> bool:
    """It does nothing but return; such a block may have several predecessors."""
    return [op.name for op in flow.blocks[block].ops] == [_RETURN]


def _tree(flow: _Flow) -> bool:
    """Each block but the entry has one predecessor and ends in a branch of two or in a return."""
    reached = {block for block in range(1, len(flow.blocks)) if not _returns(flow, block)}
    targets = sorted(target for found in flow.successors for target in found if target in reached)
    ends = {
        (block.ops[-1].name, len(found)) for block, found in zip(flow.blocks, flow.successors, strict=True)
    }
    return targets == sorted(reached) and ends <= {(_BRANCH, 2), (_JUMP, 0), (_RETURN, 0)}


def _preorder(flow: _Flow, block: int) -> Iterator[int]:
    """The blocks that do more than return, each before those that it branches to."""
    yield block
    for target in flow.successors[block]:
        if not _returns(flow, target):
            yield from _preorder(flow, target)


def _text(flow: _Flow, i: int) -> str:
    """A block with all that follows it."""
    if _returns(flow, i):
        return ""
    ops, text = flow.blocks[i].ops, flow.module.text
    own = text[ops[0].span.start : ops[-1].span.start]
    following = next(
        (k for k in range(i + 1, len(flow.blocks)) if not _returns(flow, k)), len(flow.blocks) - 1
    )
    end = flow.blocks[following].ops[0].span.start if following > i else ops[-1].span.start
    lines = "\n" * text.count("\n", ops[-1].span.start, end)
    if not flow.successors[i]:
        return own + lines
    return own + _branch(flow, ops[-1].operands[0].name, lines, *flow.successors[i])


def _branch(flow: _Flow, condition: str, lines: str, taken: int, other: int) -> str:
    """A branch that only returns is left out: the rest of the kernel runs where the condition is false."""
    then, rest, end = _text(flow, taken), _text(flow, other), f"}} {UNKNOWN} "
    if then:
        tail = f"}} else {{ {rest}" if rest else ""
        return f"{named('if')} {condition} {{{lines} {then}{tail}{end}"
    true, go_on = f"%twill_true_{other}", f"%twill_go_on_{other}"
    head = (
        f"{true} = {named('constant')} true {UNKNOWN} {go_on} = arith.xori {condition}, {true} : i1 {UNKNOWN}"
    )
    return f"{head} {named('if')} {go_on} {{{lines} {rest}{end}"
