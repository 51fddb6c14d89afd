"""C expressions as text, without terms that change nothing and without needless parentheses."""

from collections.abc import Sequence
from re import escape, finditer, fullmatch, search


def literal(text: str) -> int | None:
    """The value of an integer literal."""
    return int(text) if fullmatch(r"-?\d+", text) else None


def atom(text: str) -> str:
    """An operand of any operator: in parentheses unless it is a name, a literal, a call or already in
    parentheses."""
    return text if fullmatch(r"[\w.]+", text) or _enclosed(text, r"[\w.]*(<\w+>)?") else f"({text})"


def bare(text: str) -> str:
    """Without parentheses around the whole."""
    while _enclosed(text, ""):
        text = text[1:-1]
    return text


def plus(one: str, other: str | int) -> str:
    """`one + other`; both may be sums."""
    other = str(other)
    match literal(one), literal(other):
        case int(first), int(second):
            return str(first + second)
        case _, 0:
            return one
        case 0, _:
            return other
        case _, int(negative) if negative < 0:
            return f"{one} - {-negative}"
        case _:
            return f"{one} + {other}"


def times(one: str, other: str | int) -> str:
    """`one * other`."""
    other = str(other)
    match literal(one), literal(other):
        case int(first), int(second):
            return str(first * second)
        case (0, _) | (_, 0):
            return "0"
        case 1, _:
            return other
        case _, 1:
            return one
        case _:
            return f"{atom(one)} * {atom(other)}"


def _enclosed(text: str, before: str) -> bool:
    """Whether `text` is one pair of parentheses behind something that matches `before`."""
    found = fullmatch(rf"({before})\((.*)\)", text)
    if found is None:
        return False
    depth = 0
    for character in found[len(found.groups())]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return True


def argument(function: str, text: str) -> str | None:
    """What a text passes to `function` where it is one call of it; None for another text."""
    return text[len(function) + 1 : -1] if _enclosed(text, escape(function)) else None


def choice(text: str) -> tuple[str, str, str] | None:
    """The condition of a text that is one conditional expression in parentheses, and what it chooses between;
    None for another text."""
    inner, depth = bare(text), 0
    at = dict[str, list[int]]({"?": [], ":": []})
    for place, character in enumerate(inner):
        depth += (character in "([{") - (character in ")]}")
        if not depth and character in at and inner[place - 1 : place + 2] == f" {character} ":
            at[character].append(place)
    match at["?"], at[":"]:
        case [first], [second] if inner != text and first < second:
            return inner[:first].strip(), inner[first + 1 : second].strip(), inner[second + 1 :].strip()
        case _:
            return None


def numbers_in_memory(text: str) -> list[str]:
    """The choices in parentheses between a number in memory and another one, which stand in a text."""
    found = list[str]()
    for one in finditer(r" \? \*\(", text):
        begin, end = one.start(), one.start()
        inside = 0
        while inside >= 0:
            begin -= 1
            inside += (text[begin] == ")") - (text[begin] == "(")
        inside = 0
        while inside >= 0:
            inside += (text[end] == "(") - (text[end] == ")")
            end += 1
        found.append(text[begin:end])
    return found


def needed(declarations: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The declarations, one a line, of what the lines use, in order."""
    kept = list(lines)
    for line in reversed(declarations):
        name = line.partition(" = ")[0].split()[-1]
        if any(search(rf"\b{name}\b", other) for other in kept):
            kept.insert(0, line)
    return kept[: len(kept) - len(lines)]
