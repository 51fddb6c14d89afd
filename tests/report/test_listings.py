"""Source listings: which operations each line belongs to."""

from pathlib import Path

from tests.kernels.programs import loops, program
from tests.samples import attention
from twill.emit.program import text
from twill.report import listings
from twill.targets import target

MADE, (LOOP,) = program("fa_fwd_subtiled"), loops("fa_fwd_subtiled")[1]
TTGIR = listings.ttgir(MADE.module, LOOP.loop, LOOP.graph)


def lines(listing: listings.Listing, op: str) -> list[str]:
    return [line for _, line, ops in listing.rows() if op in ops]


def test_every_operation_has_lines_of_ttgir() -> None:
    for node in LOOP.graph.nodes:
        assert any(node.op in line for line in lines(TTGIR, node.id))


def test_python_lines_are_those_of_the_file() -> None:
    listing = listings.python(MADE.module, LOOP.loop, LOOP.graph)
    assert listing
    source = Path("examples/kernels.py").read_text().splitlines()
    assert listing.lines[0] == source[listing.first - 1]
    exponentials = [node.id for node in LOOP.graph.nodes if node.op == "math.exp2"]
    assert all("exp2" in line for op in exponentials for line in lines(listing, op)[:1])


def test_cuda_blocks_belong_to_the_operation_of_their_comment() -> None:
    listing = listings.cuda(target("sm90").source(MADE), TTGIR)
    dots = [node.id for node in LOOP.graph.nodes if node.kind == "mma"]
    exponential = next(node.id for node in LOOP.graph.nodes if node.id.startswith("exp2.weights"))
    assert all(any("wgmma_f16" in line for line in lines(listing, op)) for op in dots)
    assert any("exp2" in line for line in lines(listing, exponential))
    assert not any("wgmma_f16" in line for line in lines(listing, exponential))


def test_a_comment_reaches_to_the_end_of_its_block() -> None:
    source = (
        "// cycle 0, stage 0: a (k.ttgir:2:1)\n{\n    x();\n}\nfor (;;) {\n    // cycle 1 (k.ttgir:3:1)\n   "
        " y();\n}\nz();"
    )
    kernel = listings.Listing("TTGIR", ("", "", ""), {2: ("a",), 3: ("b",)})
    links = [ops for _, _, ops in listings.cuda(source, kernel).rows()]
    assert links == [("a",), ("a",), ("a",), ("a",), (), ("b",), ("b",), (), ()]


def test_sass_belongs_to_the_cuda_line_before_it() -> None:
    text = (
        '//## File "/x/kernel.cu", line 2\n  /*0010*/ MOV R1, R2 ;\n//## File "/x/kernel.cu", line 3\n '
        " /*0020*/ EXIT ;\n"
    )
    source = listings.Listing("CUDA", ("", "", ""), {2: ("a",)})
    assert [(line, ops) for _, line, ops in listings.sass(text, source).rows()] == [
        ("/*0010*/ MOV R1, R2 ;", ("a",)),
        ("/*0020*/ EXIT ;", ()),
    ]


def test_the_program_names_its_operations() -> None:
    result = attention()
    assert result.solution
    listing = listings.program(text(result.problem, result.solution), result.problem)
    assert all(lines(listing, op.id) for op in result.problem.operations)
