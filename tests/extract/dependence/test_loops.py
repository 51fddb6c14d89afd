"""Which loops there are, what they are called, and why some are not scheduled."""

from pathlib import Path

import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.ir.loop import Loop

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/ttgir/*.ttgir"))

DOT = "%d = tt.dot %t, %t, %t : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf16>"


def found(body: str) -> tuple[Loop, ...]:
    """The loops of a function that holds `body`."""
    args = "%n: i32, %c: i1, %t: tensor<64x64xf16>, %m: !ttg.memdesc<3x64x64xf16, #s, #smem, mutable>"
    head = (
        "#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>\n#smem ="
        " #ttg.shared_memory\n"
    )
    return loops(read(f"{head}tt.func @k({args}) {{\n{body}\ntt.return\n}}\n", "k"))


def loop(body: str) -> str:
    return f"scf.for %i = %n to %n step %n : i32 {{\n{body}\n}}"


def test_names_follow_the_nesting() -> None:
    text = loop(loop(DOT) + "\n" + loop(loop(DOT)) + "\nscf.if %c {\n" + loop(DOT) + "\n}") + "\n" + loop(DOT)
    assert [(each.path, each.depth, each.innermost) for each in found(text)] == [
        ("k/for.0", 0, False),
        ("k/for.0/for.0", 1, True),
        ("k/for.0/for.1", 1, False),
        ("k/for.0/for.1/for.0", 2, True),
        ("k/for.0/for.2", 1, True),
        ("k/for.1", 0, True),
    ]


def test_a_long_name_of_a_function_is_cut_in_the_paths_of_its_loops() -> None:
    text = Path("examples/ttgir/gemm.sm90.ttgir").read_text()
    long, longer = (read(text.replace("@gemm", f"@{'k' * size}"), "k.ttgir") for size in (249, 250))
    paths = {loop.path for module in (long, longer) for loop in loops(module)}
    assert len(paths) == 2
    assert all(len(path.encode()) < 120 and path.endswith("/for.0") for path in paths)


@pytest.mark.parametrize(
    ("body", "reason", "line"),
    [
        (loop(DOT), None, 0),
        (loop(loop(DOT)), "it contains the loop on line 5; only innermost loops are scheduled", 5),
        (loop("tt.x %n"), "it has no tensor core work", 4),
        (
            loop(DOT + "\nttg.async_wait {num = 0 : i32}"),
            "it is already pipelined: ttg.async_wait waits for asynchronous copies",
            6,
        ),
        (
            loop(DOT + "\ntt.x %n {loop.stage = 1 : i32}"),
            "it already has a schedule: tt.x carries loop.stage",
            6,
        ),
        (
            loop("tt.x %n {ttg.partition = array<i32: 0>}\n" + DOT),
            "it is already warp-specialized: tt.x carries ttg.partition",
            5,
        ),
        (
            loop("tt.x %n {async_task_id = array<i32: 0>}\n" + DOT),
            "it is already warp-specialized: tt.x carries async_task_id",
            5,
        ),
        (
            loop(
                DOT + "\n%v = ttg.memdesc_index %m[%i] : !ttg.memdesc<3x64x64xf16, #s, #smem, mutable> -> i32"
            ),
            "it is already pipelined: it walks through the slots of a buffer",
            6,
        ),
        (
            "ttg.warp_specialize()\ndefault {\n" + loop(DOT) + "\nttg.warp_yield\n} : () -> ()",
            "it is already warp-specialized: it stands in a partition of ttg.warp_specialize",
            6,
        ),
        (
            "scf.while : () -> () {\n} do {\n" + DOT + "\n}",
            "how often a while loop runs is not known when an iteration starts",
            4,
        ),
    ],
)
def test_refusals_give_reason_and_place(body: str, reason: str | None, line: int) -> None:
    first = found(body)[0]
    assert (first.refusal and first.refusal.reason) == reason
    if first.refusal:
        assert first.refusal.location.line == line


def test_a_slot_that_never_changes_is_no_ring() -> None:
    fixed = "\n%v = ttg.memdesc_index %m[%zero] : !ttg.memdesc<3x64x64xf16, #s, #smem, mutable> -> i32"
    (only,) = found("%zero = arith.constant 0 : i32\n" + loop(DOT + fixed.replace("%zero", "%zero")))
    assert only.schedulable


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_loops_to_schedule(path: Path) -> None:
    module = read(path.read_text(), path.name)
    every = loops(module)
    fit = [each for each in every if each.schedulable]
    assert len(fit) == (2 if "causal" in path.stem else 1)
    assert all(each.innermost for each in fit)
    assert {each.refusal.reason.split(";")[-1].strip() for each in every if each.refusal} <= {
        "only innermost loops are scheduled"
    }
    assert module.target == ("cuda:100" if path.stem.endswith("sm100") else "cuda:90")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_name_their_source_portably(path: Path) -> None:
    files = {
        place.file
        for function in read(path.read_text(), path.name).functions
        for op in function.walk()
        for place in op.sources
    }
    assert files <= {"examples/kernels.py", "triton/language/standard.py"}


@pytest.mark.parametrize("place", ["module", "function", "one of two modules"])
def test_loops_of_clusters_are_refused(place: str) -> None:
    attribute = 'attributes {"ttg.num-ctas" = 2 : i32}'
    body = (
        f"tt.func @k(%n: i32, %t: tensor<64x64xf16>) {attribute if place == 'function' else ''}"
        f" {{\n{loop(DOT)}\ntt.return\n}}\n"
    )
    sibling = 'module attributes {"ttg.num-ctas" = 1 : i32} {\n}'
    texts = {
        "module": f"module {attribute} {{\n{body}\n}}",
        "function": body,
        "one of two modules": f"module {{\nmodule {attribute} {{\n{body}\n}}\n{sibling}\n}}",
    }
    (one,) = loops(read(texts[place], "k"))
    assert one.refusal
    assert "clusters of 2 thread blocks" in one.refusal.reason
