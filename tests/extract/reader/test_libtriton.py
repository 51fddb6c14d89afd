# pyright: basic
"""Where Triton is installed, its own parser must see the same operations, operands, results and types as the
reader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from twill.extract.frontend.triton_passes import new_backend, new_context
from twill.extract.reader.lexer import tokenize
from twill.extract.reader.syntax import Cursor
from twill.extract.reader.ttgir import read
from twill.extract.reader.types import Types
from twill.ir import loop as ir

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/ttgir/*.ttgir"))


def post_order(module: ir.Module) -> Iterator[ir.Op]:
    """Operations as MLIR walks them: those of an operation's regions before itself."""

    def block(ops: tuple[ir.Op, ...]) -> Iterator[ir.Op]:
        for op in ops:
            for region in op.regions:
                for inner in region.blocks:
                    yield from block(inner.ops)
            yield op

    for function in module.functions:
        for inner in function.body.blocks if function.body else ():
            yield from block(inner.ops)


def walked(path: Path) -> tuple[Any, list[Any]]:
    """Triton's module and its operations; the module must stay alive while the operations are looked at."""
    from triton._C.libtriton import ir as libtriton

    context = new_context(new_backend(100 if "cuda:100" in path.read_text() else 90))
    module: Any = libtriton.parse_mlir_module(str(path), context)
    module.context = context
    ops: list[Any] = []
    module.walk(ops.append)
    skipped = ("tt.func", "builtin.module", "ttg.warp_specialize.partitions")
    return module, [op for op in ops if op.get_name() not in skipped and not elided(op)]


def elided(op: Any) -> bool:
    return op.get_name() in ("scf.yield", "ttg.warp_yield") and op.get_num_operands() == 0


def printed_type(value: Any) -> ir.Type:
    """Triton's type of a value, read from how Triton prints it."""
    return Types({}).type(Cursor(tokenize(str(value.get_type()), "type")))


def disagreement(path: Path) -> str | None:
    """The first operation about which Triton and the reader differ."""
    mine = [
        op
        for op in post_order(read(path.read_text(), str(path)))
        if op.operands or op.name not in ("scf.yield", "ttg.warp_yield")
    ]
    keep, theirs = walked(path)
    values: dict[ir.Value, int] = {}
    ids: dict[int, ir.Value] = {}
    for a, b in zip(mine, theirs, strict=False):
        if a.name != b.get_name():
            return f"{a.location}: {a.name} is {b.get_name()}"
        if len(a.operands) != b.get_num_operands() or len(a.results) != b.get_num_results():
            return (
                f"{a.location}: {a.name} has {b.get_num_operands()} operands and {b.get_num_results()}"
                " results"
            )
        pairs = [(v, b.get_operand(k)) for k, v in enumerate(a.operands)] + [
            (v, b.get_result(k)) for k, v in enumerate(a.results)
        ]
        for value, other in pairs:
            if (
                values.setdefault(value, other.id()) != other.id()
                or ids.setdefault(other.id(), value) is not value
            ):
                return f"{a.location}: {a.name} takes another value for {value.name}"
            if printed_type(other) != value.type:
                return f"{a.location}: {value.name} is {value.type}, but Triton says {other.get_type()}"
    del keep
    return None if len(mine) == len(theirs) else f"{len(mine)} operations, but Triton finds {len(theirs)}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_same_graph_as_libtriton(path: Path) -> None:
    assert disagreement(path) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_attributes_can_be_added_to_every_operation(path: Path) -> None:
    """Text with an attribute spliced into every operation still parses, and says the same otherwise."""
    from twill.extract.frontend.triton import validate

    text = path.read_text()
    ops = sorted(post_order(read(text, str(path))), key=lambda op: op.slot.offset, reverse=True)
    for op in ops:
        text = text[: op.slot.offset] + op.slot.insertion("twill.n = 1 : i32") + text[op.slot.offset :]
    assert validate(text, path.stem.rpartition(".")[2]) == ()
    assert all(op.attributes["twill.n"] == 1 for op in post_order(read(text, str(path))))


@pytest.mark.parametrize(
    "path",
    [
        *EXAMPLES[0].parent.glob("fa_[fb]wd.sm90.ttgir"),
        *sorted(Path(__file__).parents[1].glob("fixtures/rows/*.ttgir")),
    ],
    ids=lambda path: path.stem,
)
def test_triton_reads_kernels_in_sub_tiles(path: Path) -> None:
    from twill.extract.frontend.triton import validate
    from twill.extract.rewrite.subtile.rewriting import subtiled

    divided = subtiled(read(path.read_text(), str(path)), 2)
    assert validate(divided.text, path.stem.rpartition(".")[2]) == ()
