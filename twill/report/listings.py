"""Source listings of a loop, with the operations that each line belongs to: Python, TTGIR, the pipelined
program, CUDA, SASS.

Takes the products of the stages; returns `Listing`s that the report shows side by side. The links between
lines come from the locations in the TTGIR and from the comments of the generated CUDA, which name TTGIR
lines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twill.ir.graph import Graph
from twill.ir.loop import Loop, Module, Op
from twill.ir.problem import Problem

_CONTEXT = 4
"""Lines shown before the first and after the last linked line of a Python file."""
_LARGEST = 1 << 20
"""Bytes of a Python file that is read."""

Links = Mapping[int, tuple[str, ...]]
"""Operations by line number."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A text with line numbers from `first` on."""

    title: str
    lines: tuple[str, ...]
    links: Links
    first: int = 1

    def rows(self) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Line number, text and operations of each line."""
        return ((n, line, self.links.get(n, ())) for n, line in enumerate(self.lines, self.first))


def collected(pairs: Iterable[tuple[int, str]]) -> Links:
    """Links from (line, operation) pairs."""
    links: dict[int, dict[str, None]] = {}
    for line, op in pairs:
        links.setdefault(line, {})[op] = None
    return {line: tuple(ops) for line, ops in links.items()}


def ttgir(module: Module, loop: Loop, graph: Graph) -> Listing:
    """The function of the loop; an operation that is folded into another belongs to that one."""
    lines = module.text.splitlines()
    function = loop.function.location.line
    end = max((op.location.line for op in loop.function.walk()), default=function) + 1
    end = next((n for n in range(end, len(lines) + 1) if lines[n - 1].strip() == "}"), end)
    links = collected((op.location.line, node) for node, op in _owned(loop, graph))
    return Listing(f"TTGIR {Path(module.file).name}", tuple(lines[function - 1 : end]), links, function)


def _owned(loop: Loop, graph: Graph) -> Iterator[tuple[str, Op]]:
    """Each operation of the loop body with the node that it is part of."""
    owner = {index: node.id for node in graph.nodes for index in node.ops}
    for op in loop.ops:
        for part in (op, *op.inner()):
            if (node := owner.get(part.index, owner.get(op.index))) is not None:
                yield node, part


def python(module: Module, loop: Loop, graph: Graph) -> Listing | None:
    """The lines of the Python file that most operations come from; None where that file is not there."""
    pairs = [(source.file, source.line, node) for node, op in _owned(loop, graph) for source in op.sources]
    files = [file for file, _, _ in pairs]
    for file in sorted(set(files), key=lambda file: (-files.count(file), file)):
        text = _readable(file, Path(module.file).parent)
        if text is not None:
            return _excerpt(file, text, collected((line, node) for name, line, node in pairs if name == file))
    return None


def statements(loop: Loop, graph: Graph, module: Module, source: Listing | None) -> dict[str, str]:
    """The statement of each node: its Python line where that is in `source`, else its TTGIR without
    attributes and types."""
    ttgir_lines = module.text.splitlines()
    shown = {number: text for number, text, _ in source.rows()} if source else {}
    found = dict[str, str]()
    for node, op in _owned(loop, graph):
        if op.name == graph.node(node).op or node not in found:
            inner = next((shown[place.line] for place in op.sources if place.line in shown), None)
            text = inner or re.split(r" \{| : ", ttgir_lines[op.location.line - 1])[0]
            found[node] = " ".join(text.split())
    return found


def _readable(file: str, folder: Path) -> list[str] | None:
    """The lines of a Python file, named relative to the working directory or to the folder of the TTGIR."""
    for path in (Path(file), folder / file, folder / Path(file).name):
        if path.suffix == ".py" and path.is_file() and path.stat().st_size <= _LARGEST:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return None


def _excerpt(file: str, lines: Sequence[str], links: Links) -> Listing | None:
    inside = [line for line in links if line <= len(lines)]
    if not inside:
        return None
    first, last = max(1, min(inside) - _CONTEXT), min(len(lines), max(inside) + _CONTEXT)
    return Listing(f"Python {Path(file).name}", tuple(lines[first - 1 : last]), links, first)


def program(text: str, problem: Problem) -> Listing:
    """The pipelined program; its lines name their operations."""
    lines, known = text.splitlines(), {op.id for op in problem.operations}
    pairs = (
        (n, word) for n, line in enumerate(lines, 1) if not line.startswith("#") for word in line.split()
    )
    return Listing("Schedule", tuple(lines), collected((n, word) for n, word in pairs if word in known))


_COMMENT = re.compile(r"^( *)// .*\(\S+?:(\d+):\d+\)$")


def cuda(text: str, kernel: Listing) -> Listing:
    """The generated CUDA; a comment that names a line of the TTGIR `kernel` links the block below it."""
    lines = text.splitlines()
    pairs = ((n, op) for n, line in _blocks(lines) for op in kernel.links.get(line, ()))
    return Listing("CUDA kernel.cu", tuple(lines), collected(pairs))


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """CUDA line and TTGIR line: each comment reaches to the end of its indented block, to a loop, or to the
    next comment."""
    indent, target = 0, None
    for n, line in enumerate(lines, 1):
        depth = len(line) - len(line.lstrip())
        if (found := _COMMENT.match(line)) is not None:
            indent, target = len(found[1]), int(found[2])
        elif target is not None and (
            depth < indent or (depth == indent and line.lstrip().startswith(("//", "for ")))
        ):
            target = None
        if target is not None:
            yield n, target


_LINE_OF_SASS = re.compile(r'//## File ".*kernel\.cu", line (\d+)')


def sass(text: str, source: Listing) -> Listing:
    """Disassembly with line information (`nvdisasm -gi`); each instruction belongs to the CUDA line before
    it."""
    lines, pairs, line = list[str](), list[tuple[int, str]](), 0
    for raw in text.splitlines():
        if (found := _LINE_OF_SASS.search(raw)) is not None:
            line = int(found[1])
        elif re.match(r"\s*/\*[0-9a-f]{4,}\*/", raw):
            lines.append(raw.strip())
            pairs += [(len(lines), op) for op in source.links.get(line, ())]
    return Listing("SASS", tuple(lines), collected(pairs))
