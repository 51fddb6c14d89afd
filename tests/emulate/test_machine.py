"""The machine at work: lanes, control flow, memory, what is undefined."""

import numpy as np
import pytest

from tests.emulate.ptx import kernel
from twill.diagnostics import TwillError
from twill.emulate import HazardError, UnknownError
from twill.emulate.memory.clocks import Array
from twill.emulate.ptx.lexer import tokens

TO_LANE = """
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
"""


def run(body: str, threads: int = 32) -> Array:
    """What the kernel stores for each thread."""
    out = np.zeros(threads, np.uint32)
    kernel(TO_LANE + body, threads=threads).kernel().launch((1,), [out])
    return out


def test_threads_store_their_index() -> None:
    assert run("st.global.u32 [%d1], %r1;", threads=96).tolist() == list(range(96))


def test_sections_of_debug_information_are_no_words() -> None:
    """Of a file with many kernels they are the greater part."""
    section = ".section\t.debug_str\n\t{\n$L__info_string0:\n.b8 116,119\n.b8 0\n\n\t}\n"
    assert [one.text for one in tokens(f"a {section}{section}; // .section")] == ["a", ";", ""]


def test_a_warp_has_32_threads() -> None:
    assert run("mov.u32 %r2, WARP_SZ; st.global.u32 [%d1], %r2;").tolist() == [32] * 32


def test_lanes_that_branch_apart_meet_again() -> None:
    body = """
    and.b32 %r2, %r1, 1;
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra EVEN;
    mul.lo.s32 %r3, %r1, 100;
    bra JOIN;
EVEN:
    mov.u32 %r3, 7;
JOIN:
    activemask.b32 %r4;
    setp.ne.b32 %p2, %r4, -1;
    @%p2 trap;
    st.global.u32 [%d1], %r3;
"""
    assert run(body).tolist() == [7 if i % 2 == 0 else 100 * i for i in range(32)]


def test_lanes_leave_a_loop_one_by_one() -> None:
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
LOOP:
    add.u32 %r3, %r3, %r2;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    st.global.u32 [%d1], %r3;
"""
    assert run(body).tolist() == [i * (i + 1) // 2 for i in range(32)]


def test_a_scope_has_names_of_its_own() -> None:
    body = """
    {
    .reg .b32 x;
    mov.u32 x, 5;
    {
    .reg .b32 x;
    mov.u32 x, 6;
    mov.u32 %r2, x;
    }
    add.u32 %r2, %r2, x;
    }
    st.global.u32 [%d1], %r2;
"""
    assert set(run(body).tolist()) == {11}


def test_a_value_that_was_never_written_is_not_stored() -> None:
    with pytest.raises(HazardError, match=r"test\.ptx:\d+:1.*never written.*warp 0"):
        run("add.u32 %r3, %r2, 1;\n    st.global.u32 [%d1], %r3;")


def test_a_value_that_was_never_written_may_be_moved() -> None:
    run("mov.u32 %r3, %r2;\n    st.global.u32 [%d1], %r1;")


def test_a_branch_on_a_value_that_was_never_written() -> None:
    with pytest.raises(HazardError, match="branch or guard"):
        run("setp.eq.u32 %p1, %r2, 0;\n    @%p1 bra END;\nEND:\n    st.global.u32 [%d1], %r1;")


def test_global_memory_has_an_end() -> None:
    with pytest.raises(HazardError, match="out of bounds"):
        run("st.global.u32 [%d1+4], %r1;")


def test_addresses_are_multiples_of_what_is_accessed() -> None:
    with pytest.raises(HazardError, match="not a multiple of the access's 4 bytes"):
        run("st.global.u32 [%d1+2], %r1;")


def test_an_unknown_instruction_has_its_line() -> None:
    with pytest.raises(UnknownError, match=r"test\.ptx:\d+:1: error: the instruction wmma\.load"):
        run("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r2}, [%d1];")


def test_text_that_is_not_ptx() -> None:
    with pytest.raises(TwillError, match="3 operands are expected"):
        run("add.u32 %r1, ;")


def test_the_wrong_number_of_arguments() -> None:
    with pytest.raises(TwillError, match="1 parameters, not 2"):
        kernel("").kernel().launch((1,), [1, 2])


def test_local_memory_belongs_to_a_thread() -> None:
    body = """
    .local .align 4 .b8 own[16];
    mov.u32 %r2, own;
    st.local.u32 [own+4], %r1;
    cvt.u64.u32 %d3, %r2;
    cvta.local.u64 %d3, %d3;
    ld.u32 %r3, [%d3+4];
    st.global.u32 [%d1], %r3;
"""
    assert run(body).tolist() == list(range(32))


def test_the_source_line_is_named() -> None:
    text = kernel(TO_LANE + "    .loc 1 42 3\n    st.global.u32 [%d1+4], %r1;", outside='.file 1 "source.cu"')
    with pytest.raises(HazardError, match=r"source\.cu:42:3"):
        text.kernel().launch((1,), [np.zeros(32, np.uint32)])
