"""The lines of what threads compute at once."""

from types import SimpleNamespace
from typing import Any

import pytest

from twill.targets.cuda.registers import register_statements
from twill.targets.cuda.scope import ScratchHalves


@pytest.mark.parametrize("first", [(), (0,)])
def test_no_name_is_given_twice(first: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names count the lines before them: what a statement reads at once, and what its operations read, are in
    one block."""
    scope: Any = SimpleNamespace(lines=["read_0"], unawaited=None, assign=list, in_branches={})

    def execute(scope: Any, op: Any) -> None:
        scope.lines.append(f"read_{len(scope.lines)}")

    monkeypatch.setattr(register_statements, "execute", execute)
    ops = [SimpleNamespace(index=index, regions=(), results=()) for index in range(2)]
    emitter: Any = SimpleNamespace(
        program=SimpleNamespace(op=ops.__getitem__),
        scope=lambda *given, **named: scope,  # pyright: ignore[reportUnknownLambdaType]
        comment=lambda *given: "// a statement",  # pyright: ignore[reportUnknownLambdaType]
        halves=ScratchHalves(),
    )
    statement: Any = SimpleNamespace(
        ops=(0, 1),
        reads=(),
        writes=(),
        stores=(),
        at=None,
        node="",
        begin=0,
        end=1,
        by_rows=False,
        deferred=False,
    )
    head, early, rest = register_statements.computed(emitter, statement, first)
    assert head == "// a statement"
    assert [*early, *rest] == ["read_0", "read_1", "read_2"]
    assert bool(early) == bool(first)
