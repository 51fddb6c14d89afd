"""Scalars that a role computes and never reads: where a tensor map places a tile, nothing reads what its
pointers followed from.

Takes the lines of one role; gives them without such variables.
"""

import re
from collections import Counter
from collections.abc import Sequence

_SCALAR = r"(?:bool|u?int\d+_t|float|double|__half|__nv_bfloat16)"
_DECLARED = re.compile(rf"\s*{_SCALAR} (\w+);")
_ASSIGNED = re.compile(r"\s*(\w+) = [^;]*;")
_CONSTANT = re.compile(rf"\s*const {_SCALAR} (\w+) = [^;]*;")
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
"""Not a member of something, such as blockIdx.x."""


def without_unused(lines: Sequence[str]) -> list[str]:
    """Until no further variable is without a reader. What is left is as it was."""
    found = list(lines)
    while (smaller := _pass(found)) != found:
        found = smaller
    return found


def _pass(lines: list[str]) -> list[str]:
    """A variable may go whose name stands nowhere but in its declaration and its assignments."""
    own = [_own(line) for line in lines]
    elsewhere = Counter(
        word
        for line, name in zip(lines, own, strict=True)
        for word in _WORD.findall(line.partition("//")[0])
        if word != name
    )
    declared = {name for line in lines for name in _names(line)}
    gone = {name for name in declared if not elsewhere[name]}
    return [line for line, name in zip(lines, own, strict=True) if name not in gone]


def _names(line: str) -> list[str]:
    return [match[1] for pattern in (_DECLARED, _CONSTANT) if (match := pattern.fullmatch(line))]


def _own(line: str) -> str | None:
    """The variable that a line only declares or assigns, where it does not read it."""
    for pattern in (_DECLARED, _CONSTANT, _ASSIGNED):
        match = pattern.fullmatch(line)
        if match:
            return match[1] if _WORD.findall(line).count(match[1]) == 1 else None
    return None
