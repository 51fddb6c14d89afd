"""The lines of a module that define its layouts, as text to edit."""

from typing import TypeAlias

from twill.ir.loop import Module

Sizes: TypeAlias = "int | tuple[Sizes, ...]"
"""As layouts are written."""


def alias_line(module: Module, name: str) -> tuple[int, int]:
    """Where the definition of a layout's alias begins, behind its name, and where its line ends."""
    start = 0 if module.text.startswith(f"{name} = ") else module.text.index(f"\n{name} = ") + 1
    return start + len(name), module.text.index("\n", start)


def replaced(line: str, key: str, old: Sizes, new: Sizes) -> str:
    """The line with another value of a field."""
    return line.replace(f"{key} = {_text(old)}", f"{key} = {_text(new)}")


def _text(value: Sizes) -> str:
    return str(value) if isinstance(value, int) else f"[{', '.join(map(_text, value))}]"
