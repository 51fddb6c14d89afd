"""Dataclasses to JSON objects and back, by their annotations.

A field is a member of the same name; one that has its default value is left out. `decode` takes a `Node` and
gives the dataclass, or a `TwillError` at the member that is missing, unknown, of the wrong type or out of its
range.
"""

import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from twill.files.text import Json, Node

T = TypeVar("T")

Range = tuple[float, float]
Ranges = Mapping[tuple[type, str], Range]
"""Allowed values of numbers, by class and field."""

Names = Mapping[tuple[type, str], str]
"""Members that have other names than their fields, by class and field."""

EMPTY: Names = {}

LARGEST = 10**9


def encode(record: object, leave_out: Iterable[str] = ()) -> dict[str, Json]:
    """The fields that differ from their defaults."""
    shown = (
        f for f in _fields(type(record)) if f.name not in leave_out and getattr(record, f.name) != _default(f)
    )
    return {f.name: _plain(getattr(record, f.name)) for f in shown}


def _plain(value: Any) -> Json:
    if is_dataclass(value):
        return encode(value)
    return [_plain(item) for item in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def decode(
    node: Node,
    kind: type[T],
    ranges: Ranges,
    extra: Iterable[str] = (),
    *,
    names: Names = EMPTY,
    **given: Any,
) -> T:
    """A `kind` from an object; `given` fields are not members, `extra` members are allowed and left to the
    caller."""
    members, hints = node.members(), _hints(kind)
    known = {names.get((kind, f.name), f.name): f for f in _fields(kind) if f.name not in given}
    no_others(node, [*known, *extra])
    values = {
        f.name: _typed(members[name], hints[f.name], ranges.get((kind, f.name), (0, LARGEST)), ranges)
        for name, f in known.items()
        if name in members
    }
    for name, f in known.items():
        if name not in members and _default(f) is MISSING:
            node.fail(f"{name!r} is missing")
    return kind(**values, **given)


def no_others(node: Node, known: Iterable[str]) -> None:
    """Fails at a member that is not known, with the name it may have been meant to be."""
    names = list(known)
    for name, member in node.members().items():
        if name not in names:
            close = get_close_matches(name, names, 1)
            member.fail(
                "nothing of that name is known here",
                help=f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}",
            )


def _typed(node: Node, hint: Any, limits: Range, ranges: Ranges) -> Any:
    """The value of a node as its annotation wants it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return node.choice(arguments)
    if origin is tuple:
        return tuple(_typed(item, arguments[0], limits, ranges) for item in node)
    if origin is types.UnionType:
        return None if node.value is None else _typed(node, arguments[0], limits, ranges)
    if is_dataclass(hint):
        return decode(node, cast("type[object]", hint), ranges)
    return _scalar(node, hint, limits)


def _scalar(node: Node, hint: type, limits: Range) -> str | bool | int | float:
    match hint.__name__:
        case "str":
            return node.string()
        case "bool":
            return node.flag()
        case "int":
            return node.whole(*limits)
        case "float":
            return node.number(*limits)
        case other:
            raise TypeError(f"no JSON form for {other}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _fields(kind: type) -> tuple[Field[Any], ...]:
    return tuple(f for f in fields(kind) if f.init)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
