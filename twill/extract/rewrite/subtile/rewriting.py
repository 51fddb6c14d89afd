"""The text of a kernel whose rows are divided into sub-tiles.

Takes a `Module` and the number of sub-tiles; gives the module in which every divided operation stands once
for each sub-tile, one after the other on its line, and shared operations once. Loads and stores through
descriptors move smaller boxes, at row offsets; ranges of rows begin where the sub-tile does. Lines stay where
they are. Raises TwillError, with the line, where rows can not be divided.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.diagnostics import TwillError
from twill.extract.rewrite.carried.induction import STALE
from twill.extract.rewrite.subtile.dimensions import Cut, shape
from twill.extract.rewrite.subtile.division import WHOLE, Division, Facts, division, facts, free_cuts
from twill.extract.rewrite.subtile.layouts import layout_edits
from twill.extract.rewrite.subtile.names import Names, names
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, added, constant, edited, listed, text_of
from twill.ir.loop import MemDesc, Module, Op, Scalar, TensorDesc, TensorMemory, Token, Type, Value
from twill.ops.table import is_mma, named, role

_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_TYPE = re.compile(r"(?<![\w.])(!tt\.tensordesc|!ttg\.memdesc|tensor|)<(?:tensor<)?((?:\d+x)+)")
_STALE = re.compile(rf"(?:,\s*)?{STALE}")


def subtiled(module: Module, count: int) -> Module:
    """The module with the rows of its kernels divided into `count` sub-tiles; itself for one."""
    kernels = [function for function in module.functions if any(is_mma(op) for op in function.walk())]
    if count == 1 or not kernels:
        return module
    if len(kernels) > 1:
        raise TwillError(
            f"sub-tiles of a file with {len(kernels)} kernels",
            kernels[1].location,
            help="leave one kernel in it",
        )
    made = division(module, kernels[0], count)
    known = facts(module, kernels[0])
    writer = _Writer(known, made, names(known, made))
    return edited(module, [*layout_edits(known, made), *writer.edits()])


Written = Sequence[tuple[Value, int | None]]
"""Values in the order in which an operation's types are written, with the dimension that is divided."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the operations of one function."""

    facts: Facts
    made: Division
    names: Names

    @property
    def text(self) -> str:
        return self.facts.module.text

    def edits(self) -> Iterator[Edit]:
        yield from self._arguments()
        parents = {
            block.ops[-1].index: op
            for op in self.facts.ops
            for region in op.regions
            for block in region.blocks
            if block.ops and role(op) in ("for", "if")
        }
        for op in self.facts.ops:
            if role(op) in ("for", "if"):
                yield self._header(op)
                yield from self._stale(op)
            elif role(op) == "yield" and op.index in parents:
                yield Edit(op.span.start, op.span.end, self._yield(op, parents[op.index]))
            else:
                yield from self._operation(op)

    # --- operations ----------------------------------------------------------------------------------------

    def _operation(self, op: Op) -> Iterator[Edit]:
        free = any(value.id in self.facts.free for value in op.results)
        ways = free_cuts(op, self.made.needs) if free else (self.made.cuts.get(op.index),)
        if ways == (None,):
            yield from self._renamed(op)
            return
        copies = [copy for cut in ways for copy in self._copies(op, cut)]
        place = f" {_location(self.text, op.span.end) or UNKNOWN} "
        lines = "\n" * (text_of(self.facts.module, op).count("\n") - copies[-1].count("\n"))
        yield Edit(op.span.start, op.span.end, place.join(copies) + lines)

    def _renamed(self, op: Op) -> Iterator[Edit]:
        """A whole operation may read results that are numbered anew."""
        read = {value.name: self.names.part(value, None, 0) for value in op.operands}
        changed = {name: new for name, new in read.items() if name != new}
        end = min((inner.span.start for inner in op.inner()), default=op.span.end)
        for found in _NAME.finditer(self.text, op.span.start, end) if changed else ():
            if found.group() in changed:
                yield Edit(found.start(), found.end(), changed[found.group()])

    def _copies(self, op: Op, cut: Cut | None) -> list[str]:
        if cut is None:
            return [self._copy(op, Cut(()), 0)]
        if cut.accumulates:
            return self._accumulating(op, cut)
        alike = all(
            (op.results[-1 - slot].id, dim) in self.names.shared for slot, dim in cut.dims if slot < 0
        )
        made_here = any(slot < 0 for slot, _ in cut.dims)
        return [self._copy(op, cut, i) for i in range(1 if alike and made_here else self.made.count)]

    def _copy(self, op: Op, cut: Cut, number: int, instead: Mapping[str, str] | None = None) -> str:
        """One part of an operation, with what computes its offset."""
        text = self._flat(op) if number + 1 < self.made.count else text_of(self.facts.module, op)
        text = _with_names(text, self._given(op, cut, number) | dict(instead or {}))
        text = self._with_types(text, _written(op, cut))
        if role(op) == "range" and cut.dims:
            text = self._range(op, text, number)
        if role(op) in ("tma_load", "tma_store", "tma_reduce"):
            text = self._moved(op, cut, text, number)
        return text

    def _given(self, op: Op, cut: Cut, number: int) -> dict[str, str]:
        """The names of one part's operands and results."""
        found = dict[str, str]()
        for slot, value in enumerate(op.operands):
            new = self.names.part(value, cut.dim(slot), number)
            if found.setdefault(value.name, new) != new:
                self.facts.refuse(op, f"sub-tiles: {op.name} reads {value.name} whole and divided")
        for i, value in enumerate(op.results):
            new = self.names.part(value, cut.dim(-1 - i), number)
            found[value.name.partition("#")[0]] = new.partition("#")[0]
        return found

    def _accumulating(self, op: Op, cut: Cut) -> list[str]:
        """Parts along K, each adding to what the one before it made."""
        last, adds = self.made.count - 1, self._adds(op)
        results = [
            {value.name: f"%twill_sum{op.index}{self.names.suffix}{i}" for value in op.results[: i < last]}
            for i in range(self.made.count)
        ]
        parts = [self._copy(op, cut, 0, results[0])]
        for i in range(1, self.made.count):
            true, extra, instead = f"%twill_add{op.index}_{i}", "", dict(results[i])
            if adds is not None:
                extra, instead[adds.name] = f"{true} = {named('constant')} true {UNKNOWN} ", true
            for value in op.results:
                into = next(one for one in op.operands[2:] if one.type == value.type)
                instead[into.name] = results[i - 1][value.name]
            parts.append(extra + self._copy(op, cut, i, instead))
        return parts

    def _adds(self, op: Op) -> Value | None:
        """The operand that says whether an MMA adds to its accumulator; None where it always does."""
        flags = [value for value in op.operands[3:] if value.type == Scalar("i1")]
        if not flags:
            return None
        if any(value is flags[0] for value in flags[1:]):
            maker = self.facts.makers.get(flags[0].id)
            if maker is None or maker.attributes.get("value") is not True:
                self.facts.refuse(op, f"sub-tiles: {op.name} has one operand as two conditions")
            return None
        return flags[0]

    def _flat(self, op: Op) -> str:
        """An operation on one line, those of its regions included."""
        ops = [inner for region in op.regions for block in region.blocks for inner in block.ops]
        if not ops:
            return " ".join(text_of(self.facts.module, op).split())
        head = " ".join(self.text[op.span.start : ops[0].span.start].split())
        tail = self.text[self.text.index("}", ops[-1].span.end) : op.span.end]
        body = (f"{' '.join(text_of(self.facts.module, inner).split())} {UNKNOWN}" for inner in ops)
        return " ".join((head, *body, tail))

    def _range(self, op: Op, text: str, number: int) -> str:
        (size,), start = shape(op.result), op.attributes["start"]
        assert isinstance(start, int)
        part = self.made.parts(size)
        text = re.sub(r"start = \d+", f"start = {start + number * part}", text)
        return re.sub(r"end = \d+", f"end = {start + (number + 1) * part}", text)

    def _moved(self, op: Op, cut: Cut, text: str, number: int) -> str:
        """A transfer that begins some rows further."""
        dim = cut.dim(0)
        if not number or dim is None:
            return text
        found = re.search(r"\[([^\]]*)\]", text)
        index = op.operands[(1 if op.results else 2) + dim]
        assert found is not None
        assert isinstance(index.type, Scalar)
        kind, name = index.type.name, f"%twill_row{op.index}_{number}"
        indices = [one.strip() for one in found.group(1).split(",")]
        rows = number * self.made.parts(shape(op.operands[0])[dim])
        made = f"{name}_by = {constant(rows, kind)} {UNKNOWN} "
        made += f"{name} = {added(indices[dim], f'{name}_by', kind)} {UNKNOWN} "
        indices[dim] = name
        return f"{made}{text[: found.start()]}[{', '.join(indices)}]{text[found.end() :]}"

    # --- types ---------------------------------------------------------------------------------------------

    def _with_types(self, text: str, written: Written) -> str:
        """The text with the types of divided values smaller. A type belongs to the next value of its shape
        and class, or to the last one where no further value has it."""
        left, pieces, last = list(written), list[str](), 0
        done = list[tuple[Value, int | None]]()
        for found in _TYPE.finditer(text):
            sizes = tuple(map(int, found.group(2)[:-1].split("x")))
            fitting = [one for one in left if _writes(one[0].type, found.group(1), sizes)]
            again = [one for one in done if _writes(one[0].type, found.group(1), sizes)]
            if not fitting and not again:
                continue
            value, dim = fitting[0] if fitting else again[-1]
            if fitting:
                left.remove(fitting[0])
                done.append(fitting[0])
            end = _closing(text, text.index("<", found.start()))
            pieces += [text[last : found.start()], self._smaller(text[found.start() : end], value.type, dim)]
            last = end
        return "".join([*pieces, text[last:]])

    def _smaller(self, text: str, type: Type, dim: int | None) -> str:
        """The text of a type, divided along `dim`."""
        if dim is None or dim == WHOLE:
            return text

        def sizes(found: re.Match[str]) -> str:
            whole = [int(size) for size in found.group(2)[:-1].split("x")]
            whole[dim] = self.made.parts(whole[dim])
            return f"{found.group(1)}{''.join(f'{size}x' for size in whole)}"

        made = re.sub(r"(<(?:tensor<)?)((?:\d+x)+)", sizes, text, count=1)
        if isinstance(type, MemDesc) and isinstance(type.encoding, TensorMemory):
            return self._columns(made, type, type.encoding, dim)
        return made

    def _columns(self, text: str, type: MemDesc, encoding: TensorMemory, dim: int) -> str:
        """Tensor memory in blocks of no more columns than there are."""
        columns = self.made.parts(type.shape[dim])
        if dim == 0 or columns >= encoding.block_n:
            return text
        alias = next(name for name, one in self.facts.module.encodings.items() if one == encoding)
        defined = re.search(rf"^{re.escape(alias)} = (.*)$", self.text, re.MULTILINE)
        assert defined is not None
        inline = re.sub(r"blockN = \d+", f"blockN = {columns}", defined.group(1))
        return re.sub(rf"{re.escape(alias)}(?!\w)", inline, text)

    # --- control flow --------------------------------------------------------------------------------------

    def _header(self, op: Op) -> Edit:
        """A loop or branch up to its first operation, with all parts of what it carries."""
        end = op.regions[0].blocks[0].ops[0].span.start
        text = self.text[op.span.start : end]
        head, arrow, rest = text.rpartition("->")
        if arrow and op.results:
            kinds = re.match(r"\s*(\(.*\)|\S+)(?=\s+:|\s+\{)", rest, re.DOTALL)
            assert kinds is not None
            texts = list(listed(kinds.group(1).removeprefix("(").removesuffix(")")))
            types = ", ".join(self._types(texts, op.results))
            text = f"{self._carried(op, head)}-> ({types}){rest[kinds.end() :]}"
            total = sum(self.names.count(value) for value in op.results)
            mark = f":{total}" if total > 1 else ""
            text = re.sub(r"^(%[\w$.-]+)(?::\d+)?\s*=", rf"\g<1>{mark} =", text)
        whole = op.operands[:3] if role(op) == "for" else op.operands
        changed = {value.name: self.names.part(value, None, 0) for value in whole}
        start = text.find("=") + 1 if op.results else 0
        stop = text.find("iter_args") if "iter_args" in text else len(text)
        return Edit(op.span.start, end, text[:start] + _with_names(text[start:stop], changed) + text[stop:])

    def _carried(self, op: Op, head: str) -> str:
        """The initial values of a loop."""
        found = re.search(r"iter_args\((.*)\)\s*$", head, re.DOTALL)
        if found is None:
            return head
        pairs = list[str]()
        for i, arg in enumerate(op.regions[0].blocks[0].args[1:]):
            inits = self._reads(op.operands[3 + i], arg)
            pairs += [f"{one} = {init}" for one, init in zip(self.names.parts(arg), inits, strict=True)]
        return f"{head[: found.start()]}iter_args({', '.join(pairs)}) "

    def _reads(self, value: Value, carrier: Value) -> list[str]:
        """The parts of a value that a loop or branch carries as `carrier`."""
        dim = self.made.dims.get(carrier.id)
        return [self.names.part(value, dim, i) for i in range(self.names.count(carrier))]

    def _types(self, texts: Iterable[str], values: Iterable[Value]) -> Iterator[str]:
        for text, value in zip(texts, values, strict=True):
            made = self._smaller(text, value.type, self.made.dims.get(value.id))
            yield from (made for _ in range(self.names.count(value)))

    def _yield(self, op: Op, parent: Op) -> str:
        """The end of a region of a loop or branch."""
        if not op.operands:
            return text_of(self.facts.module, op)
        pairs = list(zip(op.operands, parent.results, strict=True))
        values = [name for value, result in pairs for name in self._reads(value, result)]
        texts = list(listed(text_of(self.facts.module, op).rpartition(" : ")[2]))
        return f"{op.name} {', '.join(values)} : {', '.join(self._types(texts, parent.results))}"

    def _stale(self, op: Op) -> Iterator[Edit]:
        """Facts about carried values by their number, which changes."""
        if op.results and op.results[0].id in self.names.numbered:
            begin = op.regions[-1].blocks[-1].ops[-1].span.end
            for found in _STALE.finditer(self.text, begin, op.span.end):
                yield Edit(found.start(), found.end(), "")

    # --- arguments -----------------------------------------------------------------------------------------

    def _arguments(self) -> Iterator[Edit]:
        """Descriptors that the host makes, for smaller boxes."""
        function = self.facts.function
        for value in function.args:
            dims = self.made.needs.get(value.id, frozenset[int | None]())
            if dims <= {None}:
                continue
            if len(dims) > 1:
                raise TwillError(
                    f"sub-tiles: the descriptor {value.name} is used for whole tiles and for sub-tiles",
                    function.location,
                    help="leave --subtile out",
                )
            (dim,) = dims
            at = self.text.index(f"{value.name}: ", self.text.index(f"@{function.name}"))
            begin = at + len(value.name) + 2
            end = _closing(self.text, self.text.index("<", begin))
            yield Edit(begin, end, self._smaller(self.text[begin:end], value.type, dim))


def _written(op: Op, cut: Cut) -> Written:
    operands = [(value, cut.dim(slot)) for slot, value in enumerate(op.operands)]
    return [*operands, *((value, cut.dim(-1 - i)) for i, value in enumerate(op.results))]


def _writes(type: Type, word: str, sizes: tuple[int, ...]) -> bool:
    """Whether a type is written with this word and these sizes; a descriptor's word may be left out."""
    match type:
        case MemDesc():
            return word == "!ttg.memdesc" and type.shape == sizes
        case TensorDesc():
            return word in ("!tt.tensordesc", "") and type.shape == sizes
        case Scalar() | Token():
            return False
        case _:
            return word == "tensor" and getattr(type, "shape", ()) == sizes


def _with_names(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found.group(), found.group()), text)


def _closing(text: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] in "<(") - (text[i] in ">)" and text[i - 1] != "-")
        if not depth:
            return i + 1
    return len(text)


def _location(text: str, at: int) -> str:
    """The location that follows an operation."""
    found = re.compile(r"\s*(loc)\(").match(text, at)
    return text[found.start(1) : _closing(text, found.end() - 1)] if found else ""
