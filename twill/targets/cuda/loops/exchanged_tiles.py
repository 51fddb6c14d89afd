"""Loops in which two tiles change names in each iteration, in place of a copy.

An MMA whose result is read while the next one runs leaves its tile in a variable of which an older instance
is kept: each iteration would copy it, an instruction for each register. Two iterations together need no copy:
what is new in one is old in the other one. (vLLM's fused MoE in fp8 with scales of blocks: 231 instructions
in an iteration of a warp for 300.) Takes a loop and the lines of its steady state; gives C. Code grows: only
where copies are a good part of the loop, and not where ptxas spilled so (`Program.exchanges`).
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from re import Match, sub

from twill.ir.effects import effects
from twill.ir.loop import Tensor
from twill.ir.operands import Register
from twill.ir.statements import MmaIssue, Move, Pipelined, inner, walk
from twill.targets.cuda.emitter import Emitter, indented
from twill.targets.cuda.registers.elements import variable, written
from twill.targets.cuda.registers.fragments import registers
from twill.targets.cuda.registers.register_tiles import held

PART = 0.1
"""Of a loop's interval in cycles, the registers that a thread copies, at least: each takes an issue slot."""


def iterations(emitter: Emitter, it: Pipelined, body: Sequence[str], epilogue: Sequence[str]) -> list[str]:
    """The loop over the iterations of the steady state, of which `body` is one, if any, and what follows."""
    exchanges = emitter.program.exchanges and not emitter.program.lean
    places = dict(_places(emitter, it, body)) if exchanges else dict[int, tuple[str, int]]()
    first = emitter.least
    if not body:
        return [*epilogue]
    if not places:
        return [f"for (int32_t i = {first}; i < n; ++i) {{", *indented(body), "}", *epilogue]
    names = {name for name, _ in places.values()}
    one, other = _half(body, places, set()), _half(body, places, names)
    return [
        "{",
        f"    int32_t i = {first};",
        "    for (; i + 1 < n; ++i) {",
        *indented(indented(["{", *indented(one), "}", "++i;", "{", *indented(other), "}"])),
        "    }",
        "    if (i < n) {",
        *indented(indented([*one, *(_renamed(line, names) for line in epilogue)])),
        *(["    } else {", *indented(indented(epilogue))] if epilogue else []),
        "    }",
        "}",
    ]


def _places(emitter: Emitter, it: Pipelined, body: Sequence[str]) -> Mapping[int, tuple[str, int]]:
    """Where each variable is copied: the number of the first line, the name, and how many lines. Empty where
    one copy is not found."""
    places = dict[int, tuple[str, int]]()
    for name, copy in _copies(emitter, it).items():
        found = [i for i in range(len(body)) if tuple(body[i : i + len(copy)]) == copy]
        if len(found) != 1:
            return {}
        fenced = body[found[0] + len(copy)] == f"registers_fence({_older(name)});"
        places[found[0]] = name, len(copy) + fenced
    return places


def _copies(emitter: Emitter, it: Pipelined) -> Mapping[str, tuple[str, ...]]:
    """The lines that copy results of MMAs, by variable; none where these are a small part of the loop. Not of
    tiles that something else reads, or of which more than two instances are kept."""
    issues = [one.accumulator for one in it.steady if isinstance(one, MmaIssue)]
    made = {one.variable for one in issues if isinstance(one, Register)}
    moves = [one for one in it.steady if isinstance(one, Move) and one.variable in made]
    inside = {id(one) for part in inner(it) for one in walk(part)}
    around = (one for one in walk(emitter.group.body) if id(one) not in inside)
    read = {place.variable for one in around for place in effects(one).reads if isinstance(place, Register)}
    others = read | {one.variable for one in moves if one.age > 1}
    found, copied = dict[str, tuple[str, ...]](), 0
    for one in moves:
        kind = emitter.group.variable(one.variable).type
        if one.variable not in others and isinstance(kind, Tensor):
            found[one.variable] = tuple(written(kind, _older(one.variable), held(_name(one.variable), kind)))
            copied += registers(kind)
    return found if copied >= PART * it.interval else {}


def _half(
    lines: Sequence[str], places: Mapping[int, tuple[str, int]], swapped: AbstractSet[str]
) -> list[str]:
    """One of the two iterations, which begins with the new instances of `swapped` where older ones are
    otherwise: behind the place of its copy, each variable is the other one."""
    now, found, i = set(swapped), list[str](), 0
    while i < len(lines):
        if i in places:
            name, length = places[i]
            now ^= {name}
            i += length
            continue
        found.append(_renamed(lines[i], now))
        i += 1
    return found


def _renamed(line: str, names: AbstractSet[str]) -> str:
    for name in names:
        new, old = _name(name), _older(name)

        def other(one: Match[str], new: str = new, old: str = old) -> str:
            return new if one[0] == old else old

        line = sub(rf"\b(?:{old}|{new})\b", other, line)
    return line


def _name(name: str) -> str:
    return variable(Register(name))


def _older(name: str) -> str:
    return variable(Register(name, 1))
