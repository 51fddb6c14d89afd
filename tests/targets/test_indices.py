"""Which integers are printed without care for their overflow."""

from twill.extract.reader.ttgir import read
from twill.ir.loop import Scalar, Type
from twill.ops.values import element
from twill.targets.cuda.values.arithmetic import constant, expressions, indices

BODY = """
tt.func @k(%p: !tt.ptr<f32>, %q: !tt.ptr<i32>, %n: i32, %f: f32) {
  %address = arith.addi %n, %n : i32
  %at = tt.addptr %p, %address : !tt.ptr<f32>, i32
  tt.store %at, %f : !tt.ptr<f32>
  %number = arith.muli %n, %n : i32
  tt.store %q, %number : !tt.ptr<i32>
  %both = arith.addi %n, %number : i32
  %behind = tt.addptr %p, %both : !tt.ptr<f32>, i32
  %bound = arith.subi %n, %n : i32
  %init = arith.subi %n, %n : i32
  %r = scf.for %i = %n to %bound step %n iter_args(%x = %init) -> (i32) : i32 {
    %y = arith.xori %x, %i : i32
    scf.yield %y : i32
  }
  tt.return
}
"""


def test_only_addresses_bounds_and_coordinates_are_plain() -> None:
    function = read(BODY, "k").functions[0]
    plain = indices(function)
    ops = {op.result.name: op for op in function.walk() if len(op.results) == 1}
    assert {name for name, op in ops.items() if op.index in plain} == {"%address", "%both", "%bound"}
    assert expressions(ops["%address"], ["a", "b"], index=True) == ("(a + b)",)
    assert expressions(ops["%number"], ["a", "b"]) == ("wrap_mul(a, b)",)


def test_literals_keep_their_type() -> None:
    def text(value: object, name: str) -> str:
        kind: Type = Scalar(name)
        assert element(kind) == name
        return constant(value, kind)

    assert text(5, "i32") == "5"
    assert text(5, "i64") == "int64_t(5)"
    assert text(-(2**31), "i32") == "INT32_MIN"
    assert text(-(2**63), "i64") == "INT64_MIN"
    assert text(0.1, "f32") == "0.1f"
    assert text(0.1, "f64") == "0.1"
    assert text(0.1, "bf16") == "0.100097656f"
    assert text(float("-inf"), "f32") == "(-INFINITY)"
    assert text(True, "i1") == "true"
