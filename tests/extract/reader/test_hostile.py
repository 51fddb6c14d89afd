"""Truncated, damaged and hostile texts: one TwillError with a place, quickly, or a module; never another
exception."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twill.diagnostics import TwillError
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read

ROOT = Path(__file__).parents[3]
TEXTS = [
    (ROOT / "examples/ttgir" / f"{name}.ttgir").read_text()
    for name in ("gemm_persistent.sm90", "gemm_reduction.sm90", "fa_fwd.sm100")
] + [
    (ROOT / "tests/extract/fixtures/3.9.0" / f"{name}.ttgir").read_text()
    for name in ("odd.sm90", "while_gemm.sm90")
]

SECONDS = 20.0
"""Far above what any text here takes, far below what a quadratic reader would."""


def outcome(text: str) -> str | None:
    """The message of the error that `text` causes; None where it is read."""
    error = failure(text)
    if error is None:
        return None
    assert error.location is not None
    assert error.location.line <= text.count("\n") + 1
    assert len(str(error)) < 1000
    return error.message


def failure(text: str) -> TwillError | None:
    try:
        loops(read(text, "f"))
    except TwillError as error:
        return error
    return None


@pytest.mark.parametrize("text", TEXTS)
def test_truncated_inside_the_module(text: str) -> None:
    end = text.rindex("}")
    for at in range(0, end, max(1, end // 40)):
        assert outcome(text[:at]) is not None


@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=100, deadline=None)
def test_damaged(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 40))
    new = data.draw(st.text(st.sampled_from('(){}[]<>,:=%#!^@"-x1a.\n \\'), max_size=3) | st.text(max_size=2))
    outcome(text[:at] + new + text[at + cut :])


@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=60, deadline=None)
def test_lines_moved(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    a, b = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[a], lines[b] = lines[b], lines[a]
    outcome("\n".join(lines))


def within(body: str) -> str:
    return f"module {{\n  tt.func @f(%a: i32) {{\n    {body}\n    tt.return\n  }}\n}}\n"


DEPTH = 10_000

HOSTILE = {
    "regions": within("scf.if %a {\n" * DEPTH),
    "modules": "module {" * DEPTH,
    "types": within("%x = tt.x %a : " + "tensor<" * DEPTH),
    "attributes": within("tt.x %a {a = " + "[" * DEPTH),
    "dictionaries": within("tt.x %a {a = " + "{a=" * DEPTH),
    "brackets": within("tt.x " + "(" * DEPTH),
    "locations": within("tt.x %a loc(" + "callsite(" * DEPTH),
    "encodings": within("%x = tt.x %a : tensor<1xi32, " + "#ttg.slice<{dim=0, parent=" * DEPTH),
    "encoding of itself": "#a = #a\n" + within("%x = tt.x %a : tensor<1xi32, #a>"),
    "location of itself": "#loc = loc(#loc)\n" + within("tt.x %a loc(#loc)"),
    "locations doubling": "".join(
        f"#loc{k} = loc(callsite(#loc{k + 1} at #loc{k + 1}))\n" for k in range(900)
    )
    + within("tt.x %a loc(#loc0)"),
    "one long line": within("%x = tt.x %a : i32 " * DEPTH),
    "resources": "{-#" * DEPTH,
    "digits": within("%x = arith.constant " + "9" * DEPTH + " : i32"),
    "digits of a shape": within("%x = tt.x %a : tensor<" + "9" * DEPTH + "xf32>"),
    "results": within("%x:99999999999 = tt.x %a : i32"),
    "generic loop": within('"scf.for"(%a) ({\n}) : (i32) -> ()'),
    "generic loop without body": within('"scf.for"(%a, %a, %a) : (i32, i32, i32) -> ()'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    start = time.perf_counter()
    assert outcome(HOSTILE[name]) is not None
    assert time.perf_counter() - start < SECONDS


def test_long_but_honest() -> None:
    """Time grows with the length and not with its square: 10 times the text takes far less than 100 times as
    long."""

    def seconds(count: int) -> float:
        body = "".join(f"    %v{k} = arith.addi %a, %a : i32 loc(#loc{k})\n" for k in range(count))
        tail = "".join(f'#loc{k} = loc("x"("k.py":{k}:1))\n' for k in range(count))
        text = within(body) + tail
        start = time.perf_counter()
        assert outcome(text) is None
        return time.perf_counter() - start

    seconds(100)
    assert seconds(10_000) < 50 * seconds(1_000)
