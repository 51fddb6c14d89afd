"""Operations that the common form does not cover: structured control flow and constants.

Takes a reader of operations behind the name of one; completes its draft. Their generic form, in quotes, is
not read here: it is common to all operations. Raises TwillError at the offending token.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.extract.reader.lexer import Token
from twill.extract.reader.operations import Draft, Operations, Reader, Scope
from twill.extract.reader.syntax import bare_attribute, entry, number
from twill.ir import loop as ir
from twill.ops.row import Role


def for_loop(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`scf.for %i = %a to %b step %c iter_args(%x = %y) -> (T) : i32 { ... } {..}`."""
    cursor = ops.cursor
    cursor.accept("unsigned")
    induction = cursor.expect_kind("value", "the induction variable")
    for word in ("=", "to", "step"):
        cursor.expect(word)
        draft.operands.append(ops.operand(scope))
    pairs = pairs_of(ops, draft, scope) if cursor.accept("iter_args") else ()
    draft.outputs = carried_types(ops) if cursor.accept("->") else ()
    inner = Scope(scope)
    bound = ops.types.type(cursor) if cursor.accept(":") else ir.Scalar("index")
    args = (ops.argument(inner, induction, bound, 0), *carried(ops, draft, inner, pairs, draft.outputs, 1))
    draft.regions.append(ops.region(inner, args))
    trailing(ops, draft)


def while_loop(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`scf.while (%x = %y) : (T) -> (T) { ... } do { ^bb0(%z: T): ... } attributes {..}`."""
    cursor = ops.cursor
    pairs = pairs_of(ops, draft, scope) if cursor.sees("(") else ()
    cursor.expect(":")
    draft.inputs = ops.type_list()
    cursor.expect("->")
    draft.outputs = ops.type_list()
    inner = Scope(scope)
    draft.regions.append(ops.region(inner, carried(ops, draft, inner, pairs, draft.inputs, 0)))
    cursor.expect("do")
    draft.regions.append(ops.region(Scope(scope)))
    trailing(ops, draft, "attributes")


def pairs_of(ops: Operations, draft: Draft, scope: Scope) -> tuple[Token, ...]:
    """`(%x = %y, ...)`: the inner names; the outer values become operands."""

    def pair() -> Token:
        token = ops.cursor.expect_kind("value", "a carried value")
        ops.cursor.expect("=")
        draft.operands.append(ops.operand(scope))
        return token

    return ops.cursor.listed("(", pair)


def carried_types(ops: Operations) -> tuple[ir.Type, ...]:
    """The types behind an arrow; a single one may stand without parentheses."""
    return ops.type_list() if ops.cursor.sees("(") else (ops.types.type(ops.cursor),)


def carried(
    ops: Operations,
    draft: Draft,
    inner: Scope,
    pairs: tuple[Token, ...],
    types: tuple[ir.Type, ...],
    first: int,
) -> tuple[ir.Value, ...]:
    """Defines the carried values of a loop in its scope, from argument number `first` on."""
    if len(pairs) != len(types):
        raise ops.cursor.error(
            f"{len(pairs)} values are carried, but {len(types)} types are given", draft.token
        )
    return tuple(
        ops.argument(inner, pair, ty, first + k)
        for k, (pair, ty) in enumerate(zip(pairs, types, strict=True))
    )


def branch(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`scf.if %c -> (T) { ... } else { ... } {..}`."""
    draft.operands.append(ops.operand(scope))
    draft.outputs = ops.type_list() if ops.cursor.accept("->") else ()
    draft.regions.append(ops.region(Scope(scope)))
    if ops.cursor.accept("else"):
        draft.regions.append(ops.region(Scope(scope)))
    trailing(ops, draft)


def partitions(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`ttg.warp_specialize(%a) attributes {..} default { ... } partition0(%b: T) num_warps(4) { ... } : (T)
    -> ()`."""
    cursor = ops.cursor
    draft.operands.extend(cursor.listed("(", lambda: ops.operand(scope)))
    trailing(ops, draft, "attributes")
    cursor.expect("default")
    draft.regions.append(ops.region(Scope(scope)))
    while cursor.token.kind == "word" and cursor.token.text.startswith("partition"):
        cursor.next()
        inner = Scope(scope)
        args = ops.arguments(inner)
        cursor.expect("num_warps")
        cursor.balanced()
        draft.regions.append(ops.region(inner, args))
    ops.type_clause(draft)


_PARTS = ("setup", "tile", "teardown")
"""The regions of a subtiled region."""


def subtiled(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`ttng.subtiled_region inputs(%a : T) name = [..] {..} setup { .. } tile(%b: T) { .. } teardown(..) { ..
    } -> (T)`."""
    cursor = ops.cursor
    while not cursor.sees(*_PARTS):
        if cursor.sees("{"):
            ops.dictionary(draft)
        elif cursor.token.kind == "word" and cursor.after.text == "(":
            cursor.next()
            ops.group(draft, scope)
        else:
            name, value = entry(cursor)
            draft.attributes[name] = value
    while cursor.token.text in _PARTS:
        cursor.next()
        inner = Scope(scope)
        draft.regions.append(ops.region(inner, ops.arguments(inner) if cursor.sees("(") else ()))
    draft.outputs = carried_types(ops) if cursor.accept("->") else ()
    trailing(ops, draft)


def trailing(ops: Operations, draft: Draft, keyword: str = "") -> None:
    """The attribute dictionary behind the regions, or the place for one."""
    place = ir.AttributeSlot(ops.cursor.previous.end, None, keyword)
    if keyword and not ops.cursor.accept(keyword):
        draft.slot = place
    elif ops.cursor.sees("{"):
        ops.dictionary(draft)
    else:
        draft.slot = place


# --- constants --------------------------------------------------------------------------------------------


def constant(ops: Operations, draft: Draft, scope: Scope) -> None:
    """`arith.constant {..} 1 : i32`, `true`, `dense<0.0> : tensor<..>`."""
    cursor = ops.cursor
    ops.early(draft)
    token, value = cursor.token, literal(ops)
    if cursor.accept(":"):
        draft.inputs = (ops.types.type(cursor),)
    elif token.text in ("true", "false"):
        draft.inputs = (ir.Scalar("i1"),)
    else:
        cursor.expect(":")
    draft.attributes["value"] = constant_value(value, draft.inputs[0])


def literal(ops: Operations) -> Token | ir.Raw:
    """The token of a scalar or of the one element of a splat; other constants as text."""
    cursor = ops.cursor
    token = cursor.next()
    if token.text == "dense" and cursor.sees("<"):
        inside, closing = cursor.after, cursor.fork(cursor.at + 1).after
        text = cursor.balanced()
        return inside if closing.text == ">" else ir.Raw(f"dense{text}")
    if token.kind in ("int", "float", "hex") or token.text in ("true", "false"):
        return token
    cursor.at -= 1
    value = bare_attribute(cursor)
    return (
        value if isinstance(value, ir.Raw) else ir.Raw(cursor.tokens.text[token.start : cursor.previous.end])
    )


def constant_value(literal: Token | ir.Raw, type: ir.Type) -> ir.Attribute:
    """The value of a constant of `type`: a bool for `i1`, otherwise an int or a float."""
    if isinstance(literal, ir.Raw):
        return literal
    element = type.dtype if isinstance(type, ir.Tensor) else type
    if literal.text in ("true", "false"):
        return literal.text == "true"
    if literal.kind not in ("int", "float", "hex"):
        return ir.Raw(literal.text)
    value = number(literal.text, element.name if isinstance(element, ir.Scalar) else None)
    return bool(value) if element == ir.Scalar("i1") else value


READERS: Mapping[Role, Reader] = {
    "constant": constant,
    "for": for_loop,
    "while": while_loop,
    "if": branch,
    "specialize": partitions,
    "subtiled": subtiled,
}
"""By what the operation is."""
