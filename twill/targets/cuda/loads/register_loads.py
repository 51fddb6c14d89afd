"""Loads of tiles through registers, where no asynchronous copy is possible: which elements each thread of the
loading group reads, and where it writes them.

Takes a load with its tile in shared memory; gives C. A thread writes words of 4 bytes, or elements that lie
apart in global memory: lanes that read elements between those of others would access more lines. A unit is
what it reads for one word, or, where the tile is contiguous in global memory along the other dimension than
in shared memory, for a block of words on consecutive lines, whose elements it transposes in registers.
Consecutive threads have consecutive units along the dimension that is contiguous in global memory, so that
their accesses coalesce; in a transposed tile eight of them, beside four words of a line, so that their words
lie in different banks, or as many as read a whole sector. A thread reads a batch of units, as many as its
registers hold, before it writes the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, prod
from re import escape, findall, search, sub

from twill.ir.channels import SlotTensor
from twill.ir.loop import Op
from twill.ir.shared_places import run
from twill.ops.axis_info import AxisAnalysis
from twill.ops.c import c_type
from twill.ops.pointer_loads import WORD, Neighbours
from twill.targets.cuda.expressions import atom, bare, needed, numbers_in_memory, plus, times
from twill.targets.cuda.loads.address_analysis import (
    Analysis,
    Condition,
    Part,
    costly,
    varies,
)
from twill.targets.cuda.loads.copies import placed, total
from twill.targets.cuda.loads.tile_copies import filling_text, joined
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Elements, Point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.linear_memory import place
from twill.targets.cuda.shared.shared_tiles import UNROLL, Shared, addressed
from twill.warp.slot_tensors import bits

LANES = 32
SECTOR = 32
"""Bytes of global memory that an access touches at least."""
EIGHT = 8
"""Lines whose words at one position lie in different banks, in a swizzle of 128 bytes."""
OF_LANE = "_of_lane"
"""Ends the names of numbers of which each lane has that of another unit."""
_EACH = r"\bthread\.(?!warp\b)|_of_"
"""What differs from lane to lane, or is passed on already."""
_LINE = "line_of_lane_"
WORD_BITS = 32
LEAST_IN_FLIGHT = 8
"""Accesses of a thread that are in flight, whether or not there are registers for them."""


# --- which units a thread has -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Digit:
    """A coordinate of a unit: `base`, which is below `bound`, plus `step`, a multiple of `bound` that depends
    on the unit `i_` alone."""

    base: str
    bound: int
    step: str = "0"

    @property
    def text(self) -> str:
        return _sum(self.base, self.step)


@dataclass(frozen=True, slots=True)
class Grid:
    """The units of a thread, number `i_` from 0 to `count` - 1."""

    fast: Digit
    """Along the dimension in which consecutive threads read."""
    slow: Digit
    count: int
    guards: tuple[str, ...] = ()
    """Which threads have unit `i_`; empty where all do."""
    line: str = "0"
    """Which of the `down` lines of a warp a lane has, of those along `slow`."""
    down: int = 1


def grid(fast: int, slow: int, lanes: int, warps: int) -> Grid:
    """How `warps` share `fast` * `slow` units, up to `lanes` of a warp along the first."""
    across = gcd(fast, lanes)
    down = gcd(slow, LANES // across)
    wide, high = fast // across, slow // down
    some = (f"thread.lane < {across * down}",) if across * down < LANES else ()
    lane, line = _remainder("thread.lane", across), _remainder(_quotient("thread.lane", across), down)
    if wide % warps == 0:
        turns = wide // warps
        base = _sum(times("thread.warp", across), lane)
        along = Digit(base, warps * across, times(_remainder("i_", turns), warps * across))
        slowly = Digit(line, down, times(_quotient("i_", turns), down))
        return Grid(along, slowly, turns * high, some, line, down)
    if warps % wide == 0:
        rows = warps // wide
        row = _quotient("thread.warp", wide)
        guards = (*some, f"{_sum(row, times('i_', rows))} < {high}") if high % rows else some
        along = Digit(_sum(times(_remainder("thread.warp", wide), across), lane), wide * across)
        slowly = Digit(_sum(times(row, down), line), rows * down, times("i_", rows * down))
        return Grid(along, slowly, -(-high // rows), guards, line, down)
    block = _sum("thread.warp", times("i_", warps))
    guards = (*some, f"{block} < {wide * high}") if wide * high % warps else some
    along = Digit(_sum(times(_remainder(block, wide), across), lane), 0)
    slowly = Digit(_sum(times(_quotient(block, wide), down), line), 0)
    return Grid(along, slowly, -(-wide * high // warps), guards, line, down)


def _quotient(text: str, by: int) -> str:
    return text if by == 1 else f"{atom(text)} / {by}"


def _remainder(text: str, by: int) -> str:
    return "0" if by == 1 else f"{atom(text)} % {by}"


def _sum(one: str, other: str) -> str:
    text = plus(one, other)
    return text if text in (one, other) else f"({text})"


@dataclass(frozen=True)
class Units:
    """How the threads of a group share a tile."""

    tile: Shared
    swizzled: bool
    form: Fragment
    """How the tile is numbered; its threads are those of the group."""
    access: int
    """Bytes that a thread reads at once."""
    across: bool
    """Consecutive threads read along the lines of shared memory; else from line to line."""
    neighbours: Neighbours = "next"
    """How the elements of a word lie in global memory."""
    repeated: int = 1
    """Equal rows of which one is loaded."""

    @property
    def equal(self) -> bool:
        """One element is read for a word."""
        return self.neighbours == "equal" and self.across and self.access == self.size

    @property
    def apart(self) -> int:
        """How many elements the accesses of a unit are apart; 0 where they are those of a word. So lanes next
        to each other read elements next to each other."""
        words = self.tile.columns // self.tile.room * self.size // WORD
        return gcd(words, LANES) if self.neighbours == "apart" and self.across and self.part < WORD else 0

    @property
    def written(self) -> int:
        """Bytes that a thread writes at once."""
        return self.size if self.apart else WORD

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.tile.bits // 8

    @property
    def part(self) -> int:
        """Bytes that one access adds to a word."""
        return self.access if self.across else self.size

    @property
    def loads(self) -> int:
        """Accesses of a unit."""
        return 1 if self.equal else WORD // self.part

    @property
    def lines(self) -> int:
        """Words of a unit, each on a line of its own."""
        return 1 if self.across else self.access // self.size

    @cached_property
    def grid(self) -> Grid:
        words = self.tile.columns // self.tile.room * self.size // WORD
        lines, warps = self.tile.rows // self.lines, self.form.threads // LANES
        return grid(words, lines, LANES, warps) if self.across else grid(lines, words, self._beside, warps)

    @property
    def _beside(self) -> int:
        """Lanes that read beside each other from line to line: a whole sector, of which no more than two meet
        in a bank. (vLLM's LoRA of experts, in accesses of two bytes: 69 to 64 us on an H200; vLLM's fused MoE
        of packed numbers, in bytes of 32 lanes, four of which meet: 0.32 to 0.40 ms.)"""
        whole = max(EIGHT, SECTOR // self.access)
        return whole if whole <= 2 * EIGHT else EIGHT

    @property
    def word(self) -> Digit:
        return self.grid.fast if self.across else self.grid.slow

    @property
    def line(self) -> Digit:
        return self.grid.slow if self.across else self.grid.fast

    def point(self, load: int) -> Point:
        """The first element of an access of unit `i_`."""
        line = atom(times(times(self.line.text, self.lines), self.repeated))
        column = self.column(self.word.text, load)
        if self.form.axes != (0, 1):
            return Point(self.form, "i_", (column, column))
        return Point(self.form, "i_", (column, line) if self.tile.transposed else (line, column))

    def column(self, word: str, load: int) -> str:
        """The first element of an access, in its line."""
        per = WORD // self.size
        if not self.apart:
            return _sum(times(word, per), str(load * self.part // self.size))
        block, inside = times(_quotient(word, self.apart), per * self.apart), _remainder(word, self.apart)
        return _sum(plus(block, inside), str(load * self.apart))

    def starts(self) -> list[str]:
        """Where what is written of unit 0 goes, beyond the beginning of the tile. Lanes begin with different
        words of a block, so that eight of them write to different banks."""
        return [self._at(self.line.base, self.word.base, j) for j in range(self.writes)]

    @property
    def writes(self) -> int:
        """Words, or elements that are written on their own, of a unit."""
        return self.loads if self.apart else self.lines

    @property
    def turn(self) -> str:
        """The word of its block that a thread writes first."""
        return f"thread.lane % {EIGHT} * {self.lines} / {EIGHT}"

    def number(self, j: int) -> str:
        """Which word of its block a thread writes as number `j`."""
        return "0" if self.lines == 1 else f"{_sum('turn_', str(j))} % {self.lines}"

    def to(self, j: int) -> str:
        """Where what unit `i_` writes as number `j` goes."""
        line, byte, width = times(self.line.step, self.lines), times(self.word.step, WORD), self.tile.width
        if not self._regular:
            return f"to_ + {self._at(self.line.text, self.word.text, j)}"
        start = f"at_[{j}]"
        if not self.swizzled:
            return plus(plus(start, byte), times(line, width))
        flips = [f"{byte} % {width}"] if byte != "0" else []
        flips += [_pattern(line, width)] if line != "0" else []
        flipped = f"({' ^ '.join((start, *flips))})" if flips else start
        further = f"{byte} / {width} * {self.tile.box}" if byte != "0" and self.tile.boxes > 1 else "0"
        return plus(plus(flipped, further), times(line, width))

    @property
    def _regular(self) -> bool:
        """The addresses of a thread's words differ by constants, and in bits that are zero in the first."""
        line, word = self.line.bound * self.lines, self.word.bound * WORD
        return not (self.tile.places or self.tile.padded) and all(
            one > 0 and one & (one - 1) == 0 for one in (line, word)
        )

    def _line(self, line: str, j: int) -> str:
        return atom(line) if self.lines == 1 else f"({times(line, self.lines)} + {self.number(j)})"

    def _at(self, line: str, word: str, j: int) -> str:
        line = self._line(line, j)
        column = self.column(word, j) if self.apart else times(word, WORD // self.size)
        byte, width = (
            self.tile.byte(times(column, self.size) if self.apart else times(word, WORD)),
            self.tile.width,
        )
        if self.tile.places:
            return times(place(self.tile.places, line, column), self.size)
        if not self.swizzled:
            return f"{byte} + {line} * {width}"
        inside = f"{line} * {width} + ({byte} % {width} ^ {_pattern(line, width)})"
        return inside if self.tile.boxes == 1 else f"{byte} / {width} * {self.tile.box} + {inside}"


def _pattern(line: str, width: int) -> str:
    """The bits of an offset that a swizzle flips on a line (`swizzle` in math.cuh)."""
    return f"({line} * {width} >> 3 & {width - 16})"


def units(
    tensor: SlotTensor, access: int, along: int, form: Fragment, neighbours: Neighbours = "next"
) -> Units:
    """How the threads of `form` load a tile whose `neighbours` along a dimension lie so in global memory.
    Raises ValueError for a tile that is not as the tensor core reads it."""
    size = bits(tensor.dtype) // 8
    if tensor.encoding is not None:
        tile = addressed("", tensor)
        if tile.places and run(tile.places) * size % WORD:
            raise ValueError("lies in shared memory in parts of less than four bytes")
        return Units(tile, True, form, access, along == (0 if tile.transposed else 1), neighbours)
    turned = len(tensor.shape) == 2 and tensor.shape[1] == 1  # a column lies in memory as a row does
    lines, columns = (1, tensor.shape[0]) if turned else (prod(tensor.shape[:-1]), tensor.shape[-1])
    tile = Shared("", lines // tensor.repeated, columns, 8 * size, columns * size, turned)
    across = along == (0 if turned else len(tensor.shape) - 1)
    return Units(tile, False, form, access, across, neighbours, tensor.repeated)


# --- before the loop --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """What a thread keeps of a load throughout a loop."""

    loop: frozenset[int] = frozenset()
    """The operations of the loop."""
    offsets: tuple[tuple[str, ...], ...] = ()
    """For each offset that an address adds, by access of a unit: the sum of its costly parts that are the
    same in every iteration; empty where none is kept."""
    full: str = ""
    """The variable that says whether the conditions that are the same in every iteration hold for all
    elements of this warp."""
    inside: tuple[str, ...] = ()
    """For each access of unit `i_`, whether they hold for it; empty where that is computed again."""
    lines: tuple[str, ...] = ()
    registers: int = 0
    once: bool = False
    """There is one iteration: masks are conditions, an array of them for each access."""


def kept_in_registers(
    scope: Scope,
    before: Sequence[str],
    op: Op,
    found: Units,
    inside: frozenset[int],
    room: int,
    once: bool = False,
) -> Kept:
    """What is kept of a load in at most `room` registers: offsets that take a division or a load to compute,
    and whether masks hold. `scope` is that of the load in some iteration, `before` are the lines that compute
    the scalars that stay the same. `once`: in no other iteration, which keeps no masks but those that units
    have more of than a word has bits."""
    analysis = Analysis(scope, inside, divided=True)
    address, name = analysis.address(op.operands[0]), f"kept_{scope.program.name(op.result.id)}_"
    accesses = _accesses(scope, op, found)
    declared, computed, of_lanes, used = list[str](), list[str](), list[str](), 1
    names = dict[tuple[int, str], str]()
    offsets = list[tuple[str, ...]]()
    for number, offset in enumerate(address.offsets if address else ()):
        own = list[str]()
        for kept in (costly(offset, found.point(load)) for load in range(accesses)):
            count = found.grid.count if varies(kept.text) else 1
            words = count * kept.bits // 32
            if kept.text and (number, kept.text) not in names and used + words <= room:
                variable, used = f"{name}at{len(names)}", used + words
                names[number, kept.text] = f"{variable}[{'i_' if count > 1 else '0'}]"
                declared.append(f"uint{kept.bits}_t {variable}[{count}] = {{}};")
                computed.append(f"{names[number, kept.text]} = {kept.text};")
            elif kept.text and (number, kept.text) not in names and (held := _of_lane(found, kept.text)):
                variable, used = f"{name}at{len(names)}{OF_LANE}", used + kept.bits // 32
                names[number, kept.text] = variable
                declared.append(f"uint{kept.bits}_t {variable};")
                of_lanes.append(f"{variable} = {held};")
            read = names.get((number, kept.text), "")
            own.append(kept.follows(read) if read else "")
        offsets.append(tuple(own))
    fixed = [one for one in _conditions(analysis, op) if one.fixed]
    once = once and found.grid.count * found.loads <= WORD_BITS
    mask = (_mask_once if once else _fixed_mask)(found, fixed, name)
    declared += mask.declared
    if not declared:
        return Kept(inside, tuple(offsets))
    lines_once, each = [*of_lanes, *mask.once], [*computed, *mask.each]
    block = [*needed(before, [*lines_once, *each]), *lines_once]
    if each:
        block += [UNROLL, f"for (uint32_t i_ = 0; i_ < {found.grid.count}; ++i_) {{"]
        block += [*(f"    {line}" for line in _guarded(found, each)), "}"]
    lines = (*declared, "{", *(f"    {line}" for line in (*block, *mask.after)), "}")
    arrays = [f"keep({text.partition('[')[0]});" for text in (*names.values(), *mask.kept)]
    return Kept(inside, tuple(offsets), mask.full, mask.reads, (*lines, *arrays), used, once)


@dataclass(frozen=True, slots=True)
class _Mask:
    """The conditions of a mask that are the same in every iteration."""

    declared: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    """What computes those that are the same for all units of a thread."""
    each: tuple[str, ...] = ()
    """What computes the others, for unit `i_`."""
    after: tuple[str, ...] = ()
    full: str = ""
    reads: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def _fixed_mask(found: Units, fixed: Sequence[Condition], name: str) -> _Mask:
    """A bit for each unit, in a word for each access whose mask is another, and whether a warp has all of
    them: one whose lanes differ would execute the loads with the mask and those without. The conditions are
    joined without branches, as they divide; those of all units are computed once. More units than bits keep
    no mask, but whether it holds."""
    if not fixed:
        return _Mask()
    loads = [tuple(dict.fromkeys(one.holds(found.point(n)) for one in fixed)) for n in range(found.loads)]
    words = {texts: f"{name}inside[{n}]" for n, texts in enumerate(dict.fromkeys(loads))}
    fits, once, each = found.grid.count <= WORD_BITS, list[str](), list[str]()
    for texts, word in words.items():
        same = [one for one in texts if not varies(one)]
        different = [one for one in texts if varies(one)]
        once += [f"{word} = {_all(same)} ? ~0u : 0u;"] if same else []
        bit = " << i_" if fits else ""
        each += [f"{word} &= ~(uint32_t(!({_all(different)})){bit});"] if different else []
    every = ", ".join("~0u" for _ in words)
    declared = (f"uint32_t {name}inside[{len(words)}] = {{{every}}};", f"bool {name}full;")
    after = (f"{name}full = __all_sync(~0u, {_all([f'{word} == ~0u' for word in words.values()])});",)
    bit = "({} >> i_ & 1)" if each else "({} != 0)"
    reads = tuple(bit.format(words[texts]) for texts in loads) if fits or not each else ()
    return _Mask(
        declared, tuple(once), tuple(each), after, f"{name}full", reads, (f"{name}inside",) if reads else ()
    )


def _mask_once(found: Units, fixed: Sequence[Condition], name: str) -> _Mask:
    """A condition for each access of each unit, joined without branches, so that what they load is loaded at
    the same time. In one iteration, packing and unpacking bits, and a second form of the accesses without a
    mask, cost more than they save. (A window of attention, 32 x 64 elements in accesses of two bytes: 1256
    instructions of a thread for 1361, and 96 registers without spills, which five thread blocks have.)"""
    if not fixed:
        return _Mask()
    loads = [tuple(dict.fromkeys(one.holds(found.point(n)) for one in fixed)) for n in range(found.loads)]
    arrays = {texts: f"{name}inside{n}" for n, texts in enumerate(dict.fromkeys(loads))}
    declared = tuple(f"bool {array}[{found.grid.count}];" for array in arrays.values())
    each = [f"{array}[i_] = {_all(texts)};" for texts, array in arrays.items()]
    reads = tuple(f"{arrays[texts]}[i_]" for texts in loads)
    return _Mask(declared, each=_loading_once(each), reads=reads)


def _loading_once(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines with numbers in memory that several of them need in variables: compilers load what is loaded
    under a condition in each place again."""
    declared, lines = list[str](), list(lines)
    for text in dict.fromkeys(one for line in lines for one in numbers_in_memory(line)):
        if sum(text in line for line in lines) > 1:
            name = f"number{len(declared)}_"
            declared.append(f"const auto {name} = {bare(text)};")
            lines = [line.replace(text, name) for line in lines]
    return (*declared, *lines)


def _all(conditions: Sequence[str]) -> str:
    """Their conjunction, which computes all of them."""
    return " & ".join(f"({one})" for one in conditions)


def _of_lane(found: Units, text: str) -> str:
    """A number of unit `i_` that is the same in all lanes that have the same line, of a unit and a line of
    which each lane has the number (`_lane_of`); empty where there is none, or where not all lanes load."""
    grid = found.grid
    if grid.guards or grid.count * grid.down > LANES or not varies(text):
        return ""
    line = rf"(?<!\w){escape(grid.line)}(?!\w)"
    if (grid.down > 1 and search(_EACH, sub(line, "", text))) or (grid.down == 1 and search(_EACH, text)):
        return ""
    unit = _remainder(_quotient("thread.lane", grid.down), grid.count)
    unit = f"({unit})" if grid.count * grid.down < LANES or grid.down > 1 else "thread.lane"
    of_unit = sub(r"\bi_\b", unit, sub(line, _LINE, text) if grid.down > 1 else text)
    return of_unit.replace(_LINE, f"thread.lane % {grid.down}")


def _lane_of(grid: Grid, unit: str) -> str:
    """The lane that has the numbers of a unit, and of the line of the lane that reads them."""
    return plus(times(f"({unit})", grid.down), grid.line) if grid.down > 1 else unit


def _guarded(found: Units, lines: Sequence[str]) -> list[str]:
    guards = found.grid.guards
    return [f"if ({joined(guards)}) {{", *(f"    {line}" for line in lines), "}"] if guards else list(lines)


def _accesses(scope: Scope, op: Op, found: Units) -> int:
    """Accesses of a unit whose addresses are computed: one where the others follow it."""
    if not found.across:
        return found.loads
    line = 0 if found.tile.transposed or found.form.axes != (0, 1) else 1
    run = AxisAnalysis(scope.program.function).of(op.operands[0]).contiguity[line]
    return 1 if run % (WORD // found.size) == 0 else found.loads


def _conditions(analysis: Analysis, op: Op) -> tuple[Condition, ...]:
    return analysis.conditions(op.operands[1]) if len(op.operands) > 1 else ()


# --- in an iteration --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loading:
    """One tile in an iteration, as C."""

    found: Units
    declared: tuple[str, ...]
    to: tuple[str, ...]
    """Declarations of where what is read goes."""
    begun: tuple[str, ...]
    """Declarations of what addresses begin with."""
    reads: tuple[str, ...]
    """What is assigned for each access of unit `i_`, under the mask."""
    unmasked: tuple[str, ...]
    """The same where `whole` holds."""
    whole: str
    """A condition under which the mask holds for all elements; empty where none is known."""
    arrays: bool
    """Arrays are kept in registers, which only constants may index."""
    passed: tuple[tuple[str, int], ...] = ()
    """The numbers that lanes pass on for each unit: the variable that a lane has, and its bits."""

    @property
    def registers(self) -> int:
        """That hold the whole tile."""
        return self.found.grid.count * self.found.loads


def loading(scope: Scope, op: Op, found: Units, own: Kept, slot: str) -> Loading:
    """The loads of a tile to `slot`, in the scope of the load in this iteration."""
    numbers = _Numbers(found)
    begin, pointers = _pointers(scope, op, found, own, numbers)
    conditions = _conditions(Analysis(scope, own.loop), op)
    moving = [one for one in conditions if not one.fixed]
    whole = [one.whole for one in moving if one.whole]
    starts = ", ".join(f"to_ + {one}" for one in found.starts())
    to = (
        f"const uint32_t to_ = {slot};",
        *([f"const uint32_t turn_ = {found.turn};"] if found.lines > 1 else []),
        f"[[maybe_unused]] const uint32_t at_[{found.writes}] = {{{starts}}};",
    )
    other = _other(scope, op, found)
    kept = own.inside or ("",) * found.loads
    masks = [
        joined(
            (
                *([bit] if bit else []),
                *(one.holds(found.point(load)) for one in (moving if bit else conditions)),
            )
        )
        for load, bit in enumerate(kept)
    ]
    masked = [f"{one}, {mask}, {other}" if mask else one for one, mask in zip(pointers, masks, strict=True)]
    plain, reads = (
        tuple(f"load_global<{found.access}>({one});" for one in each) for each in (pointers, masked)
    )
    known = bool(conditions) and len(whole) == len(moving) and (own.full or len(moving) == len(conditions))
    holds = joined((*((own.full,) if own.full else ()), *whole)) if known else ""
    arrays = own.once or any(varies(text) for texts in own.offsets for text in texts)
    begun, passed = (*numbers.lines, *begin), tuple(numbers.passed.items())
    return Loading(found, tuple(scope.lines), to, begun, reads, plain, holds, arrays, passed)


@dataclass(slots=True)
class _Numbers:
    """What of addresses takes a division or a load, and is computed before the first access of a tile: once
    for all units of a thread, or for one of them, which its lane passes on (`__shfl_sync`)."""

    found: Units
    names: dict[str, str] = field(default_factory=dict[str, str])
    """By the text of a part."""
    lines: list[str] = field(default_factory=list[str])
    passed: dict[str, int] = field(default_factory=dict[str, int])

    def of(self, part: Elements, point: Point, width: int) -> str:
        """The text of a part at a point."""
        text = part(point)
        if not isinstance(part, Part) or not part.costly or self.found.grid.guards:
            return text
        held = _of_lane(self.found, text) if varies(text) else text
        if text not in self.names and held:
            name = f"number{len(self.names)}{OF_LANE if varies(text) else '_'}"
            self.lines.append(f"const uint{width}_t {name} = {held};")
            self.names[text] = name
        return self.given(self.names[text], width) if held else text

    def given(self, text: str, width: int) -> str:
        """What a unit takes for a variable, or for what follows from one."""
        for name in findall(rf"\w+{OF_LANE}\b", text):
            self.passed[name] = width
        return sub(rf"(\w+){OF_LANE}\b", r"\1_of_i_[u_]", text)


def loaded(tiles: Sequence[Loading], room: int) -> list[str]:
    """The loads of all tiles; `room` registers hold what is in flight. While a whole tile is on its way, the
    accesses of the next ones are started, as far as there is room."""
    if not tiles:
        return []
    one, *rest = tiles
    left, declared = room - one.registers, (*one.declared, *one.to, *one.begun)
    if rest and left >= min(LEAST_IN_FLIGHT, rest[0].registers):
        first = ["constexpr uint32_t b_ = 0;", *_started(one, one.found.grid.count)]
        return _block([*declared, *first, *loaded(rest, left), *_written(one, one.found.grid.count)])
    return [*_block([*declared, *_batches(one, room)]), *loaded(rest, room)]


def started(one: Loading, name: str) -> list[str]:
    """Starts all accesses of a tile, which read to an array of this name."""
    count = one.found.grid.count
    return _block([*one.declared, *one.begun, *_whole(name), *_passed(one, count), *_accessed(one, count)])


def stored(one: Loading, name: str) -> list[str]:
    """Writes to a slot what was read to an array."""
    return _block([*one.to, *_whole(name), *_written(one, one.found.grid.count)])


def _whole(name: str) -> list[str]:
    return ["constexpr uint32_t b_ = 0;", f"auto& read_ = {name};"]


def _block(lines: Sequence[str]) -> list[str]:
    return ["{", *(f"    {line}" for line in lines), "}"]


def _other(scope: Scope, op: Op, found: Units) -> str:
    """What an access gives where its mask is false, as the number that it reads."""
    pattern = filling_text(scope.program.function, op).removesuffix("ull") or "0"
    return f"0x{int(pattern, 16) & ((1 << 8 * found.access) - 1):x}u"


def _pointers(
    scope: Scope, op: Op, found: Units, own: Kept, numbers: _Numbers
) -> tuple[list[str], list[str]]:
    """Declarations of what addresses begin with, and the address of each access of unit `i_`."""
    analysis = Analysis(scope, own.loop, divided=True)
    address, accesses = analysis.address(op.operands[0]), _accesses(scope, op, found)
    follows = [found.part // found.size * load for load in range(found.loads)] if accesses == 1 else []
    kind, begin, made = c_type(op.operands[0].type), list[str](), list[str]()
    for load in range(accesses):
        point = found.point(load)
        if address is None:
            made.append(f"({scope.elements(op.operands[0])(point)})")
            continue
        first, each = [address.base], [f"from{load}_"]
        for number, offset in enumerate(address.offsets):
            name = own.offsets[number][load] if number < len(own.offsets) else ""
            parts = [
                one(point) for one in offset.fixed if not (name and isinstance(one, Part) and one.costly)
            ]
            fixed = [*([numbers.given(name, offset.bits)] if name else []), *parts]
            moving = [numbers.of(part, point, offset.bits) for part in offset.moving]
            same, different = placed(offset, fixed, moving)
            first, each = [*first, *same], [*each, *different]
        begin.append(f"{kind} from{load}_ = {' + '.join(first)};")
        made.append(total(each))
    return begin, [f"{made[0]} + {after}" if after else made[0] for after in follows] or made


def _batches(one: Loading, room: int) -> list[str]:
    """All units of a thread, batch by batch."""
    count, loads = one.found.grid.count, one.found.loads
    most = max(1, max(LEAST_IN_FLIGHT, room) // loads)
    each = next(n for n in range(min(count, most), 0, -1) if count % n == 0)
    return [
        UNROLL if one.arrays or count == each else "#pragma unroll 1",
        f"for (uint32_t b_ = 0; b_ < {count}; b_ += {each}) {{",
        *(f"    {line}" for line in (*_started(one, each), *_written(one, each))),
        "}",
    ]


def _started(one: Loading, each: int) -> list[str]:
    """The accesses of the units from `b_` on."""
    return [f"uint32_t read_[{each}][{one.found.loads}];", *_passed(one, each), *_accessed(one, each)]


def _accessed(one: Loading, each: int) -> list[str]:
    read, plain = (
        _each_unit(one.found, each, [f"read_[u_][{load}] = {text}" for load, text in enumerate(texts)])
        for texts in (one.reads, one.unmasked)
    )
    if not one.whole:
        return read
    fast, slow = ([f"    {line}" for line in lines] for lines in (plain, read))
    return [f"if ({one.whole}) {{", *fast, "} else {", *slow, "}"]


def _passed(one: Loading, each: int) -> list[str]:
    """The numbers of these units, from the lanes that have them: all lanes come here, with any mask."""
    if not one.passed:
        return []
    names = [(name.removesuffix(OF_LANE) + "_of_i_", name, width) for name, width in one.passed]
    arrays = [f"uint{width}_t {name}[{each}];" for name, _, width in names]
    lane = _lane_of(one.found.grid, "b_ + u_")
    given = [f"{name}[u_] = __shfl_sync(~0u, {of_lane}, {lane});" for name, of_lane, _ in names]
    return [
        *arrays,
        UNROLL,
        f"for (uint32_t u_ = 0; u_ < {each}; ++u_) {{",
        *(f"    {line}" for line in given),
        "}",
    ]


def _written(one: Loading, each: int) -> list[str]:
    """The words of these units."""
    found = one.found
    if found.equal:
        ones = sum(1 << 8 * found.size * number for number in range(WORD // found.size))
        words = [f"read_[u_][0] * {ones:#x}u"]
    elif found.apart:
        words = [f"uint{8 * found.size}_t(read_[u_][{load}])" for load in range(found.loads)]
    else:
        words = [f"gathered<{found.part}>(read_[u_], {found.number(j)})" for j in range(found.lines)]
    kind = f"uint{8 * found.written}_t"
    write = [f"shared_at<{kind}>({found.to(j)}) = {word};" for j, word in enumerate(words)]
    return _each_unit(found, each, write)


def _each_unit(found: Units, each: int, lines: Sequence[str]) -> list[str]:
    index = "[[maybe_unused]] const uint32_t i_ = b_ + u_;"
    inside = [f"    {line}" for line in (index, *_guarded(found, lines))]
    return [UNROLL, f"for (uint32_t u_ = 0; u_ < {each}; ++u_) {{", *inside, "}"]
