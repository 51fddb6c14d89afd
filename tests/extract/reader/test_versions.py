"""Text of each Triton version, from 3.5.1 to 3.9.0: made from the same kernels by `make_fixtures.py`."""

from pathlib import Path

import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.ir.loop import Loop, MemDesc, TensorDesc, TensorMemory

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = ["3.5.1", "3.6.0", "3.7.0", "3.8.0", "3.9.0"]

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def found(version: str, name: str) -> tuple[Loop, ...]:
    path = FIXTURES / version / f"{name}.ttgir"
    return loops(read(path.read_text(), path.name))


def names(loop: Loop) -> list[str]:
    return sorted(op.name for op in loop.ops)


def test_forward_attention(version: str) -> None:
    (loop,) = found(version, "fa_fwd.sm90")
    assert (loop.path, loop.schedulable, len(loop.carried)) == ("fa_fwd/for.0", True, 3)
    assert names(loop) == names(found("3.9.0", "fa_fwd.sm90")[0])
    assert [op.sources[-1].file for op in loop.ops] == ["examples/kernels.py"] * len(loop.ops)


def test_backward_attention_in_tensor_memory(version: str) -> None:
    (loop,) = found(version, "fa_bwd.sm100")
    assert (loop.schedulable, len(loop.tensor_ops)) == (True, 5)
    assert names(loop) == names(found("3.9.0", "fa_bwd.sm100")[0])
    buffers = {
        v.type
        for op in loop.tensor_ops
        for v in op.operands
        if isinstance(v.type, MemDesc) and v.type.space == "tmem"
    }
    assert {buffer.encoding for buffer in buffers} == {TensorMemory(128, 128, 1, False)}


def test_descriptors_of_both_spellings(version: str) -> None:
    (loop,) = found(version, "fa_fwd.sm90")
    loads = [op for op in loop.ops if op.name == "tt.descriptor_load"]
    assert [op.operands[0].type for op in loads] == [
        op.operands[0].type for op in found("3.9.0", "fa_fwd.sm90")[0].ops if op.name == "tt.descriptor_load"
    ]
    assert all(
        isinstance(op.operands[0].type, TensorDesc) and op.operands[0].type.shape == (128, 128)
        for op in loads
    )


def test_unusual_operations(version: str) -> None:
    path = FIXTURES / version / "odd.sm90.ttgir"
    module = read(path.read_text(), path.name)
    assert [function.name for function in module.functions][:1] == ["odd"]
    ops = {op.name: op for op in module.functions[0].walk()}
    assert loops(module) == ()
    assert ops["tt.atomic_rmw"].attributes["atomic_rmw_op"] in ("fadd", "max")
    assert str(ops["tt.elementwise_inline_asm"].attributes["asm_string"]).startswith("cvt.rna.tf32")
    assert len(ops["tt.scan"].results) == 2
    assert len(ops["tt.call"].results) == 2
    assert "apart" in ops["tt.call"].symbols[0]
    assert ops["tt.print"].operands


def test_while_loops_are_refused(version: str) -> None:
    (loop,) = found(version, "while_gemm.sm90")
    assert loop.path == "while_gemm/while.0"
    assert loop.refusal is not None
    assert "while" in loop.refusal.reason
    assert loop.refusal.location == loop.location


def test_pipelined_loops_are_refused(version: str) -> None:
    (loop,) = found(version, "gemm.sm90.scheduled")
    assert loop.refusal is not None
    assert loop.refusal.reason.startswith("it is already pipelined")
    assert loop.refusal.location.line > loop.location.line


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_specialized_loops_are_refused(version: str, arch: str) -> None:
    refusals = [loop.refusal for loop in found(version, f"specialized_gemm.{arch}.scheduled")]
    assert len(refusals) >= 2
    assert all(refusal and ("already" in refusal.reason) for refusal in refusals)
    assert any(refusal and "warp-specialized" in refusal.reason for refusal in refusals)
