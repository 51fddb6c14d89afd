"""What MMAs of both architectures have in common: operands in shared memory, and what is added to.

Takes a tile in shared memory or an `MmaIssue`; gives bytes and C.
"""

from twill.ir.statements import MmaIssue
from twill.targets.cuda.shared.shared_tiles import Shared


def major(outer: bool) -> str:
    """The order of an operand in shared memory; `outer`: contiguous along M or N."""
    return "MN_MAJOR" if outer else "K_MAJOR"


def advance(tile: Shared, outer: bool, k: int) -> int:
    """Bytes to element k of the contraction."""
    if outer:
        return k * tile.width
    column, inside = divmod(k * tile.bits // 8, tile.width)
    return column * tile.box + inside


def accumulates(it: MmaIssue, least: int, trips: str = "n", words: tuple[str, str] = ("0", "1")) -> str:
    """Whether an MMA adds to its accumulator, in a part of a loop of `trips` iterations that begins at
    iteration `least`; `words` for no and yes."""
    number, (no, yes) = it.at.iteration, words
    match it.accumulate, number.base:
        case "always", _:
            return yes
        case ("never", _) | ("not_first", "once"):
            return no
        case "not_first", "first":
            return words[number.offset > 0]
        case "not_first", "newest":
            return yes if number.offset < least else f"i != {number.offset}"
        case "not_first", "last":
            return yes if number.offset + 1 < least else f"{trips} != {number.offset + 1}"
