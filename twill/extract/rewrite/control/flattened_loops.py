"""Persistent loops that a user flattened by hand, as a loop over tiles with a loop over K in it.

    for _ in range(tiles * k_tiles):
        k = where(k == k_tiles - 1, 0, k + 1)
        if k == 0: ...                  # which tile
        acc = dot(a.load(..), b.load(..), acc)
        if k == k_tiles - 1: ...        # store the tile, begin the next

The two branches are executed once for each tile, so they are no work of an iteration. Takes a module; gives
the same with the first branch before, and the last one behind a loop over k. Only where the last value that
the inner loop carries, and what the first branch decides, is all that passes between the parts. Lines stay
where they are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.induction import without_stale
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, compared, edited, listed
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.ir.loop import Block, Carried, Loop, Module, Op, Value
from twill.ops.table import named, names, role

_NAME = r"%[\w$.-]+"


def unflattened(module: Module) -> Module:
    """The module itself where no loop is flattened."""
    for loop in loops(module):
        plain = loop.innermost and bool(loop.tensor_ops) and role(loop.op) == "for"
        flat = _flattened(module, loop) if plain else None
        if flat is not None:
            text = Edit(loop.op.span.start, loop.body.ops[-1].span.end, _text(module, flat))
            return unflattened(edited(module, [text, *without_stale(module, loop)]))
    return module


# --- which loops ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Counter:
    """The carried number that counts 0, 1, .., length - 1 again and again."""

    position: int
    """Among the carried values."""
    made: tuple[Op, ...]
    """The comparison, the addition and the selection."""
    last: Value
    """length - 1."""
    length: Value
    tiles: Value
    """The loop runs length * tiles iterations."""

    @property
    def value(self) -> Value:
        return self.made[-1].result


@dataclass(frozen=True, slots=True, eq=False)
class _Flat:
    """A flattened loop."""

    loop: Loop
    counter: _Counter
    compare: Op
    """counter == 0, read by `first` alone."""
    first: Op
    """The branch that is taken where the counter is 0."""
    final: Op
    """The branch that is taken where the counter is length - 1."""
    held: Mapping[int, int]
    """By position of a carried value that `first` decides: the number of its result."""
    kept: Mapping[int, Value]
    """By position of a carried value of the loop over k: what an iteration yields."""
    again: Mapping[int, Value]
    """By position of one of these: what it is for the next tile, unless that is its value so far."""
    used: frozenset[int]
    """The positions in `held` whose values `first` reads."""

    @property
    def outer(self) -> tuple[int, ...]:
        """The positions that the loop over tiles carries: not where each tile begins with the same value."""
        carried = self.loop.carried
        fixed = {i for i, value in self.again.items() if value.id == carried[i].init.id}
        return tuple(sorted({*self.used, *self.kept} - fixed))


def _flattened(module: Module, loop: Loop) -> _Flat | None:
    makers = makers_of(loop.function.walk())
    counter = next((one for i in range(len(loop.carried)) if (one := _counter(loop, i, makers))), None)
    read = {value.id for op in loop.function.walk() for value in op.operands}
    results = any(carried.result.id in read for carried in loop.carried)
    assert loop.induction is not None, "a counted loop has an induction variable"
    if counter is None or results or loop.induction.id in read:
        return None
    first, final = (_branch(loop, counter, makers, begins=begins) for begins in (True, False))
    return _divided(loop, counter, first, final) if first and final else None


def _counter(loop: Loop, position: int, makers: Makers) -> _Counter | None:
    carried, trips = loop.carried[position], makers.of(loop.upper, "multiply")
    select = makers.of(carried.yielded, "select")
    plain = makers.number(loop.lower) == 0 and makers.number(loop.step) == 1
    if not plain or trips is None or select is None or makers.number(carried.init) != -1:
        return None
    compare, grown = makers.of(select.operands[0], "compare"), makers.of(select.operands[2], "add")
    if compare is None or grown is None or makers.number(select.operands[1]) != 0:
        return None
    last = _equal_to(compare, carried.arg)
    by = [value for value in grown.operands if value.id != carried.arg.id]
    if last is None or len(by) != 1 or makers.number(by[0]) != 1:
        return None
    for length, tiles in (trips.operands, trips.operands[::-1]):
        if _one_less(last, length, makers) and carried.arg.type == length.type == tiles.type:
            return _Counter(position, (compare, grown, select), last, length, tiles)
    return None


def _equal_to(compare: Op, value: Value) -> Value | None:
    """What a comparison compares a value with, for equality."""
    others = [one for one in compare.operands if one.id != value.id]
    return others[0] if compare.attributes.get("predicate") == "eq" and len(others) == 1 else None


def _one_less(last: Value, length: Value, makers: Makers) -> bool:
    numbers = makers.number(last), makers.number(length)
    if None not in numbers:
        return numbers[0] == (numbers[1] or 0) - 1 and (numbers[1] or 0) > 0
    op, by = makers.of(last, "subtract", "add"), {"subtract": 1, "add": -1}
    return (
        op is not None
        and op.operands[0].id == length.id
        and makers.number(op.operands[1]) == by[role(op) or ""]
    )


def _branch(loop: Loop, counter: _Counter, makers: Makers, *, begins: bool) -> Op | None:
    """The one branch of the body that is taken where the counter is 0, or where it is the last number."""
    found = list[Op]()
    for op in loop.ops:
        compare = makers.of(op.operands[0], "compare") if role(op) == "if" else None
        number = _equal_to(compare, counter.value) if compare is not None else None
        wanted = number is not None and (
            makers.number(number) == 0 if begins else number.id == counter.last.id
        )
        if wanted:
            found.append(op)
    return found[0] if len(found) == 1 else None


def _sides(op: Op) -> tuple[Block, Block | None]:
    """What a branch executes, and its other side."""
    blocks = [region.blocks[0] for region in op.regions if region.blocks]
    return blocks[0], blocks[1] if len(blocks) > 1 else None


def _divided(loop: Loop, counter: _Counter, first: Op, final: Op) -> _Flat | None:
    """None where more passes between the parts of an iteration than a nest of loops hands on."""
    makers = makers_of(loop.body.ops)
    compare = makers.of(first.operands[0], "compare")
    order = [op for op in loop.ops if op not in counter.made and op is not compare]
    straight = order[:1] == [first] and order[-1:] == [final] and compare is not None
    others = [other for one in (first, final) if (other := _sides(one)[1]) is not None]
    if not straight or any(len(other.ops) > 1 for other in others):
        return None
    assert compare is not None
    held = _held(loop, first)
    kept, again = _kept(loop, counter, held or {}, final)
    if held is None or len(held) + len(kept) + 1 != len(loop.carried):
        return None
    flat = _Flat(loop, counter, compare, first, final, held, kept, again, _used(loop, first, held))
    return flat if _apart(flat) else None


def _held(loop: Loop, first: Op) -> Mapping[int, int] | None:
    """Carried values that stay what the branch made them; None where it has other results."""
    other = _sides(first)[1]
    found = dict[int, int]()
    for number, result in enumerate(first.results):
        assert other is not None, "a branch with results has two sides"
        before = other.ops[-1].operands[number].id
        for position, carried in enumerate(loop.carried):
            if carried.arg.id == before and carried.yielded.id == result.id:
                found[position] = number
    return found if len(found) == len(first.results) else None


def _kept(
    loop: Loop, counter: _Counter, held: Mapping[int, int], final: Op
) -> tuple[Mapping[int, Value], Mapping[int, Value]]:
    """What the loop over k carries, and what of it the last branch begins anew."""
    then, other = _sides(final)
    made = {value.id for op in loop.ops for value in op.results}
    numbers = {result.id: number for number, result in enumerate(final.results)}
    kept, again = dict[int, Value](), dict[int, Value]()
    for position, carried in enumerate(loop.carried):
        number = numbers.get(carried.yielded.id)
        if position in held or position == counter.position:
            continue
        if number is not None and other is not None:
            kept[position], again[position] = other.ops[-1].operands[number], then.ops[-1].operands[number]
        elif (flag := _reset(loop, counter, carried)) is not None:
            kept[position], again[position] = flag, carried.init
        elif carried.yielded.id in made:
            kept[position] = carried.yielded
    inside = made | {arg.id for arg in loop.body.args}
    flags = {i for i, value in again.items() if value is loop.carried[i].init and kept[i].id not in inside}
    return {i: value for i, value in kept.items() if value.id in made or i in flags}, again


def _reset(loop: Loop, counter: _Counter, carried: Carried) -> Value | None:
    """What an iteration yields that is not the last of a tile, where that yields the first value again: a
    flag that says whether an MMA adds."""
    makers = makers_of(loop.ops)
    select = makers.of(carried.yielded, "select")
    compare = makers.of(select.operands[0], "compare") if select is not None else None
    last = _equal_to(compare, counter.value) if compare is not None else None
    alike = last is not None and last.id == counter.last.id
    again = select is not None and select.operands[1].id == carried.init.id
    return select.operands[2] if select is not None and alike and again else None


def _used(loop: Loop, first: Op, held: Mapping[int, int]) -> frozenset[int]:
    read = _reads(_sides(first)[0].ops)
    return frozenset(i for i in held if loop.carried[i].arg.id in read)


def _reads(ops: Sequence[Op]) -> set[int]:
    return {value.id for op in ops for one in (op, *op.inner()) for value in one.operands}


def _apart(flat: _Flat) -> bool:
    """Nothing else passes between the branches and the rest of an iteration."""
    loop, counter = flat.loop, flat.counter
    parts = (flat.first, flat.final, *counter.made, flat.compare)
    middle = [op for op in loop.ops if op not in parts]
    held = {loop.carried[i].arg.id for i in flat.held}
    inner = {loop.carried[i].arg.id for i in flat.kept}
    before = loop.carried[counter.position].arg.id
    counted = {counter.value.id, before}
    made = {value.id for op in middle for value in op.results}
    handed = {value.id for value in flat.kept.values()}
    results = {value.id for value in flat.final.results}
    conditions = {value.id for op in (flat.compare, *counter.made[:-1]) for value in op.results}
    first, final = (_reads(_sides(op)[0].ops) for op in (flat.first, flat.final))
    return (
        not first & (inner | counted | made | results | conditions)
        and not final & (inner | counted | conditions | held | (made - handed))
        and not _reads(middle) & (held | {before} | conditions | results)
        and not handed & (conditions | counted)
    )


# --- the text ---------------------------------------------------------------------------------------------


def _text(module: Module, flat: _Flat) -> str:
    """The nest from its header to what an iteration of the outer loop yields."""
    loop, text = flat.loop, module.text
    begun, ended = _sides(flat.first)[0], _sides(flat.final)[0]
    out = _Names(flat, _types(text[loop.op.span.start : loop.body.ops[0].span.start]))
    following = loop.ops[loop.ops.index(flat.first) + 1].span.start
    between = _substituted(text[following : flat.final.span.start], out.decided)
    last, end = ended.ops[-1].span.start, loop.body.ops[-1].span.end
    pieces = (
        (loop.op.span.start, begun.ops[0].span.start, out.outer_header),
        (begun.ops[0].span.start, begun.ops[-1].span.start, _side(text, begun, out.begun)),
        (begun.ops[-1].span.start, following, out.inner_header),
        (following, flat.final.span.start, between),
        (flat.final.span.start, ended.ops[0].span.start, out.inner_end),
        (ended.ops[0].span.start, last, _side(text, ended, out.ended)),
        (last, end, out.outer_end),
    )
    return "".join(_on_its_lines(text[begin:stop], new) for begin, stop, new in pieces)


def _side(text: str, block: Block, new: Mapping[str, str]) -> str:
    """What a side of a branch executes, with other names."""
    return _substituted(text[block.ops[0].span.start : block.ops[-1].span.start], new)


def _on_its_lines(old: str, new: str) -> str:
    return new + "\n" * (old.count("\n") - new.count("\n"))


def _substituted(text: str, new: Mapping[str, str]) -> str:
    """The text with other names of values: of single ones, or of all results of an operation."""

    def name(found: re.Match[str]) -> str:
        base, mark, number = found.group().partition("#")
        return new.get(found.group()) or new.get(base, base) + mark + number

    return re.sub(rf"{_NAME}(?:#\d+)?", name, text)


def _types(header: str) -> tuple[str, ...]:
    """Of the values that a loop carries."""
    found = re.search(r"iter_args\(.*?\)\s*->\s*(\(.*\)|\S+)(?=\s+:|\s+\{)", header, re.DOTALL)
    assert found is not None, "a loop that carries values lists them"
    return tuple(listed(found.group(1).removeprefix("(").removesuffix(")")))


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of values in the nest, and the lines that make it one."""

    flat: _Flat
    types: tuple[str, ...]
    """Of the carried values."""

    @property
    def prefix(self) -> str:
        return f"%twill_tile{self.flat.loop.op.index}"

    @property
    def begun(self) -> Mapping[str, str]:
        return _apart_from(_sides(self.flat.first)[0], "first")

    @property
    def decided(self) -> Mapping[str, str]:
        """What the results of the first branch are."""
        made = _sides(self.flat.first)[0].ops[-1].operands
        pairs = zip(self.flat.first.results, made, strict=True)
        return {result.name: _substituted(value.name, self.begun) for result, value in pairs}

    @property
    def inner(self) -> Mapping[str, str]:
        """What the loop over k results in."""
        many = len(self.flat.kept) > 1
        made = {value.id for op in self.flat.loop.ops for value in op.results}
        values = enumerate(self.flat.kept.values())
        named = ((value, f"{self.prefix}#{i}" if many else self.prefix) for i, value in values)
        return {value.name: name for value, name in named if value.id in made}

    @property
    def ended(self) -> Mapping[str, str]:
        """Names behind the loop over k."""
        own = _apart_from(_sides(self.flat.final)[0], "final")
        return {**own, **self.decided, **self.inner}

    @property
    def outer_header(self) -> str:
        loop, counter = self.flat.loop, self.flat.counter
        assert loop.lower is not None
        assert loop.induction is not None
        kind = self.types[counter.position]
        runs, tiles = f"{self.prefix}_runs", f"{self.prefix}_tiles"
        least = f"{runs} = {compared('sgt', counter.length.name, loop.lower.name, kind)}"
        chosen = f"{named('select')} {runs}, {counter.tiles.name}, {loop.lower.name} : {kind}"
        pairs = [(self._outer(i), loop.carried[i].init.name, self.types[i]) for i in self.flat.outer]
        head = self._header(f"{self.prefix}_outer", loop.induction.name, tiles, pairs)
        return f"{least} {UNKNOWN} {tiles} = {chosen} {UNKNOWN} {head}"

    @property
    def inner_header(self) -> str:
        carried, counter = self.flat.loop.carried, self.flat.counter
        outer = self.flat.outer
        pairs = [
            (carried[i].arg.name, self._outer(i) if i in outer else carried[i].init.name, self.types[i])
            for i in self.flat.kept
        ]
        return self._header(self.prefix, counter.value.name, counter.length.name, pairs)

    def _outer(self, position: int) -> str:
        name = self.flat.loop.carried[position].arg.name
        return f"{name}_tile" if position in self.flat.kept else name

    def _header(self, result: str, induction: str, upper: str, pairs: Sequence[tuple[str, str, str]]) -> str:
        """Of a loop that carries values: what each is called, where it begins, its type."""
        loop, kind = self.flat.loop, self.types[self.flat.counter.position]
        assert loop.lower is not None
        assert loop.step is not None
        count = f":{len(pairs)}" if len(pairs) > 1 else ""
        begin = ", ".join(f"{name} = {init}" for name, init, _ in pairs)
        carried = f" iter_args({begin}) -> ({', '.join(one for *_, one in pairs)})" if pairs else ""
        made = f"{result}{count} = " if pairs else ""
        bounds = f"{loop.lower.name} to {upper} step {loop.step.name}"
        return f"{made}{named('for')} {induction} = {bounds}{carried} : {kind} {{ "

    @property
    def inner_end(self) -> str:
        values = [_substituted(value.name, self.decided) for value in self.flat.kept.values()]
        return f"{self._yield(values, tuple(self.flat.kept))} {UNKNOWN} }} {UNKNOWN} "

    @property
    def outer_end(self) -> str:
        flat, carried = self.flat, self.flat.loop.carried
        held = {i: flat.first.results[number] for i, number in flat.held.items()}
        values = [held.get(i) or flat.again.get(i) or carried[i].yielded for i in flat.outer]
        return self._yield([_substituted(value.name, self.ended) for value in values], flat.outer)

    def _yield(self, values: Sequence[str], positions: Sequence[int]) -> str:
        kinds = ", ".join(self.types[i] for i in positions)
        return f"{names('yield')[0]} {', '.join(values)} : {kinds}" if positions else names("yield")[0]


def _apart_from(side: Block, word: str) -> Mapping[str, str]:
    """New names of the values of a side, which the rest of the loop may repeat."""
    made = (value.name.partition("#")[0] for op in side.walk() for value in op.results)
    return {name: f"{name}_{word}" for name in made}
