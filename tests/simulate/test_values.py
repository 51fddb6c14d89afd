"""Warp programs compute what the TTGIR computes, and the TTGIR what the mathematics says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.programs import CARRIED, DIVIDED, EXAMPLES, INVARIANT, program
from twill.diagnostics import TwillError
from twill.ir.loop import Op
from twill.ir.statements import Compute, InitializeCarried
from twill.ops.row import Values
from twill.ops.table import role
from twill.ops.values import Operand, Pointers, rounded
from twill.simulate import interpret as interpreter
from twill.simulate.compare import (
    _compared,  # pyright: ignore[reportPrivateUsage]
    arguments,
    compare,
    error,
    scalars,
)
from twill.simulate.execute import run
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret
from twill.simulate.protocol import HazardError

GEMM, ATTENTION = {"M": 512, "N": 512, "K": 256}, {"heads": 2, "length": 256, "scale": 0.09}


def grid(x: int, y: int, of: tuple[int, int] = (4, 2)) -> dict[str, int]:
    return {"pid.x": x, "pid.y": y, "pid.z": 0, "grid.x": of[0], "grid.y": of[1], "grid.z": 1}


def numbers(kernel: str) -> dict[str, float]:
    return dict(ATTENTION if kernel.startswith("fa") else GEMM)


@pytest.mark.parametrize("kernel", [*EXAMPLES, *DIVIDED])
@pytest.mark.parametrize("prefer", [(0, 1, 2), (2, 1, 0)])
def test_a_program_computes_what_its_ttgir_computes(kernel: str, prefer: tuple[int, ...]) -> None:
    location = grid(1, 1, (2, 2))
    found = compare(program(kernel), numbers(kernel), location, prefer=prefer)
    assert all(one.good for one in found), found
    assert {one.argument for one in found if one.changed} & {"c", "o", "dq"}


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        ("gemm", {"K": 64}),
        ("gemm", {"K": 0}),
        ("fa_fwd_subtiled", {"length": 128}),
        ("fa_fwd_causal", {"length": 128}),
    ],
)
def test_one_and_no_iteration(kernel: str, given: dict[str, float]) -> None:
    found = compare(program(kernel), numbers(kernel) | given, grid(0, 0, (1, 1)))
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


@pytest.mark.parametrize("kernel", CARRIED)
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_the_first_reader_of_a_carried_value_sees_its_initial_value(kernel: str, trips: int) -> None:
    given = {"K": 64 * trips} | ({"M": 128} if kernel == "exclusive" else {})
    found = compare(program(kernel), given, grid(0, 0, (1, 1)))
    assert all(one.good for one in found), found
    assert any(one.changed for one in found) == (trips > 0 or kernel == "exclusive")


@pytest.mark.parametrize("kernel", INVARIANT)
def test_what_is_the_same_in_every_iteration_stays_so(kernel: str) -> None:
    found = compare(program(kernel), {"M": 80, "N": 272}, grid(0, 0, (1, 1)))
    assert all(one.good for one in found), found
    assert {one.argument for one in found if one.values} == {"c"}


def test_an_accumulator_that_only_its_mma_reads_is_not_zeroed_before_the_loop() -> None:
    for kernel, initialized in (("gemm", False), ("exclusive", True), ("chunked", True)):
        groups = (group.body for group in program(kernel).groups)
        assert (
            any(isinstance(statement, InitializeCarried) for body in groups for statement in body)
            == initialized
        )


def test_several_tiles_of_a_persistent_kernel() -> None:
    found = compare(program("gemm_persistent"), numbers("gemm"), grid(0, 0, (3, 1)))
    assert all(one.good for one in found)
    assert any(one.changed for one in found)


def test_the_direct_execution_is_right() -> None:
    function = program("gemm").function
    sizes = {"M": 128, "N": 256, "K": 192}
    values, memory = arguments(function, sizes)
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    a = memory.arrays["a"][: 128 * 192].reshape(128, 192).astype(np.float64)
    b = memory.arrays["b"][: 256 * 192].reshape(256, 192).astype(np.float64)
    c = memory.arrays["c"][: 128 * 256].reshape(128, 256).astype(np.float64)
    assert error(a @ b.T, c) < 1e-3


def test_attention_is_right() -> None:
    function = program("fa_fwd_causal").function
    values, memory = arguments(function, {"heads": 1, "length": 256, "scale": 0.09})
    interpret(function, values, memory, grid(0, 0, (2, 1)))
    q, k, v = (memory.arrays[name][: 256 * 128].reshape(256, 128).astype(np.float64) for name in "qkv")
    scores = np.where(np.tril(np.ones((256, 256), bool)), q @ k.T * 0.09, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = (weights / weights.sum(1, keepdims=True)) @ v
    found = memory.arrays["o"][: 256 * 128].reshape(256, 128).astype(np.float64)
    assert error(expected[128:], found[128:]) < 2e-3, "the first program has the last queries"


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("bf16", 1.0 + 2**-8, 1.0),
        ("bf16", 1.0 + 3 * 2**-8, 1.0 + 2**-6),
        ("f16", 65519.0, 65504.0),
        ("f16", 1e6, np.inf),
        ("f8E4M3FN", 500.0, 448.0),
        ("f8E4M3FN", 1.0625, 1.0),
        ("f8E4M3FN", 2**-9, 2**-9),
        ("f8E4M3FN", 2**-11, 0.0),
        ("f8E5M2", 1.3, 1.25),
        ("f8E5M2", -1e6, -57344.0),
        ("i8", 7.0, 7),
    ],
)
def test_rounding(type: str, value: float, expected: float) -> None:
    assert rounded(np.asarray(value), type) == expected


def test_memory_ends_somewhere() -> None:
    memory = Memory({"a": "f32"})
    for offset in (-1, 2**40):
        with pytest.raises(TwillError, match=f"element {offset} of a is accessed"):
            memory.read(Pointers("a", np.asarray(0)), np.asarray([3, offset]), None)
        with pytest.raises(TwillError, match=f"element {offset} of a is accessed"):
            memory.write(Pointers("a", np.asarray(0)), np.asarray([3, offset]), np.zeros(2), None)


def test_what_is_never_assigned_is_not_computed_with() -> None:
    """In the loop, a task of `pointers` computes addresses again, from scalars that only its own group's
    prologue keeps."""
    made = program("pointers")
    for position, group in enumerate(made.groups):
        for i, statement in enumerate(group.body):
            if isinstance(statement, Compute) and statement.writes:
                lacking = replace(group, body=(*group.body[:i], *group.body[i + 1 :]))
                broken = replace(
                    made, groups=(*made.groups[:position], lacking, *made.groups[position + 1 :])
                )
                with pytest.raises(HazardError, match=r"reads \w+ \(age 0\) before it is assigned"):
                    compare(broken, {"M": 64, "N": 64, "K": 128}, grid(0, 0, (1, 1)))


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TwillError, match="no scalar argument 'L'"):
        scalars(program("gemm").function, {"L": 3})


def test_arrays_that_have_grown_differently_are_compared() -> None:
    memories = [Memory({"c": "f16"}, written={"c"}) for _ in range(3)]
    for memory, size in zip(memories, (13_959_168, 13_107_200, 1), strict=True):
        memory.array("c", size)
    assert _compared("c", *memories).error == 0.0
    memories[0].arrays["c"][13_500_000] += 1.0
    assert 0.0 < _compared("c", *memories).error < float("inf")


def test_only_what_is_touched_of_an_array_is_made() -> None:
    """Two elements far apart, of which one is written; the same numbers as where all are made."""
    places, types = np.array([7, 9_000_000]), {"c": "f16"}
    sparse, whole, untouched = Memory(types), Memory(types), Memory(types)
    assert sparse.elements("c", places).tolist() == whole.array("c", 9_000_001)[places].tolist()
    assert len(sparse.made["c"]) == 2
    assert not _compared("c", sparse, whole, untouched).changed
    sparse.write(Pointers("c", np.asarray(0)), places[1:], np.array([5.0]), None)
    found = _compared("c", sparse, whole, untouched)
    assert found.changed
    assert found.error > 0.0
    assert len(untouched.made["c"]) > 2, "as many as the array that has all"


def test_constants_are_made_once_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever statements read them, and however often: they were most of the time of a check."""
    made = Counter[int]()
    evaluate = interpreter.evaluate

    def counted(op: Op, operands: Sequence[Operand], memory: Memory, place: Mapping[str, int]) -> Values:
        made.update([op.index] if role(op) == "constant" else [])
        return evaluate(op, operands, memory, place)

    monkeypatch.setattr(interpreter, "evaluate", counted)
    one = program("fa_fwd_subtiled")
    values, memory = arguments(one.function, numbers("fa_fwd_subtiled"))
    run(one, values, memory, grid(1, 1))
    assert made
    assert set(made.values()) == {1}


def test_elements_that_no_run_has_written_do_not_count() -> None:
    """Ten wrong numbers are wrong in a large array, too."""
    size = 100_000
    memories = [Memory({"c": "f32"}, written={"c"}) for _ in range(3)]
    for memory in memories[:2]:
        memory.array("c", size)[:10] = 1e-3
    memories[1].arrays["c"][:5] = 2e-3
    assert 0.5 < _compared("c", *memories).error < 1.0
    memories[1].arrays["c"][:10] = 1e-3
    memories[1].arrays["c"][size // 2] += 1.0
    assert _compared("c", *memories).error > 0.5, "written where nothing should be"


def test_numbers_that_an_instruction_may_flush_to_zero_do_not_count() -> None:
    tiny = np.full(8, 2.0**-130)
    assert error(tiny, np.zeros(8)) == 0.0
    assert error(np.full(8, 2.0**-100), np.zeros(8)) == 1.0
