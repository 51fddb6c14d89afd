"""Gluon kernels written from warp programs: Triton compiles them, and their PTX computes what the TTGIR
computes."""

import ast
import importlib.util
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.builds import numbers
from tests.kernels.programs import (
    BLACKWELL,
    BLACKWELL_EXAMPLES,
    CARRIED,
    EXAMPLES,
    FORMS,
    INVARIANT,
    PASSED,
    architecture,
    changed,
    loops,
    program,
)
from twill.diagnostics import TwillError
from twill.emulate import load
from twill.emulate.arrays import decoded, encoded
from twill.extract.frontend.gluon import Compiled, compiled
from twill.generation.export import exported
from twill.generation.generated import Generated
from twill.inputs import Inputs
from twill.ir.loop import Blocked, Function, Linear, NvidiaMma, Pointer, Slice
from twill.ir.program import Program
from twill.ir.statements import Pipelined, walk
from twill.simulate.compare import TOLERANCE, arguments, error, scalars
from twill.simulate.interpret import interpret
from twill.targets import target
from twill.targets.gluon.kernel import source
from twill.targets.gluon.layouts import scaled_to
from twill.warp.lower import lower
from twill.warp.plan import Options

needs_triton = pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="needs Triton")
REFUSED = ("gemm_persistent", "fa_bwd", "fa_bwd_subtiled")
"""Examples whose programs for Blackwell are not exported as they are."""
EXECUTED = (
    *("gemm_persistent", "gemm_reduction", "fa_fwd", "fa_fwd_subtiled", "fa_bwd"),
    *(
        "gemm_reduction.sm100",
        "pointers.sm100",
        "matmul_e4m3.sm100",
        "fa_fwd_subtiled.sm100",
        "fa_fwd_causal.sm100",
    ),
)


def executed(made: Compiled, function: Function, given: dict[str, float]) -> dict[str, float]:
    """The relative error of each array that the kernel writes, by one program of the grid."""
    scalar = scalars(function, given)
    grid = {f"{what}.{axis}": int(what == "grid") for what in ("grid", "pid") for axis in "xyz"}
    values, expected = arguments(function, scalar)
    interpret(function, values, expected, grid)
    _, before = arguments(function, scalar)
    raw: dict[str, Any] = {
        name: encoded(before.array(name, max(1, len(expected.arrays.get(name, ())))), kind)
        for name, kind in expected.types.items()
    }
    names = [(value.name.lstrip("%"), isinstance(value.type, Pointer)) for value in function.args]
    kernel = load(made.ptx, "exported.ptx").kernel()
    scratch = [np.zeros(max(1, made.scratch_bytes), np.uint8), np.zeros(1, np.uint8)]
    passed = [raw[name] if pointer else scalar[name] for name, pointer in names]
    passed += scratch[: len(kernel.function.parameters) - len(passed)]
    kernel.launch((1, 1, 1), passed, shared=made.shared_bytes, strict=False)
    found = {name: decoded(raw[name], kind) for name, kind in expected.types.items()}
    return {
        name: error(np.asarray(expected.array(name, len(array)), np.float64), np.asarray(array, np.float64))
        for name, array in found.items()
        if not np.array_equal(before.array(name, len(array)), expected.array(name, len(array)))
    }


def accepted(one: Program, errors: dict[str, float]) -> None:
    """There are values, and they are right."""
    kinds = {value.name.lstrip("%"): value.type for value in one.function.args}
    assert errors
    for name, found in errors.items():
        kind = kinds[name]
        assert isinstance(kind, Pointer)
        assert found <= TOLERANCE[str(getattr(kind.pointee, "name", ""))], name


@needs_triton
@pytest.mark.parametrize("kernel", EXECUTED)
def test_exported_kernels_compute_what_their_ttgir_computes(kernel: str) -> None:
    one = program(kernel)
    made = compiled(source(one), one.function, architecture(kernel))
    accepted(one, executed(made, one.function, numbers(kernel)))


def test_tensor_memory_handed_over_by_eight_warps_is_refused() -> None:
    with pytest.raises(TwillError, match="8 warps to MMAs of another group") as refused:
        source(program("fa_bwd.sm100"))
    assert refused.value.location
    assert refused.value.help


@needs_triton
def test_loops_with_fewer_iterations_than_stages() -> None:
    """A loop of four stages, whose statements are predicated where there are fewer than three iterations."""
    one = program("fa_fwd_passed.sm100")
    assert {it.stages for group in one.groups for it in walk(group.body) if isinstance(it, Pipelined)} == {4}
    made = compiled(source(one), one.function, "sm100")
    for length in (128, 384):
        accepted(one, executed(made, one.function, {**numbers("fa_fwd_passed.sm100"), "length": length}))


def test_tensor_memory_of_several_tiles_is_allocated_once() -> None:
    text = source(program("fa_fwd_subtiled.sm100"))
    assert text.count("allocate_tensor_memory(gl.float32, [128, 512]") == 1
    assert re.search(
        r"tensor_tile\(tensor_memory, gl.float16, 1024, \d+, 128, ", text
    )  # over columns of scores
    assert "mbarriers=[y_24_empty.index(" in text


def exportable(kernel: str) -> Program:
    """As `twill export` lowers it."""
    return lower(*loops(kernel), target(architecture(kernel)), Options(alternate=False))


def written(kernel: str) -> str:
    """The file, whose functions are all there."""
    text = source(exportable(kernel))
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert {f"group_{group.id}" for group in program(kernel).groups} <= set(functions)
    assert functions[-1] == "launch"
    return text


@pytest.mark.parametrize(
    "kernel",
    [*EXAMPLES, "grouped", "epilogue", "unpacked", "matmul_e4m3_32"]
    + [f"{name}.sm100" for name in BLACKWELL_EXAMPLES if name not in REFUSED],
)
def test_kernels_are_written_as_python(kernel: str) -> None:
    assert "gl.warp_specialize(" in written(kernel)


@pytest.mark.parametrize("kernel", [*FORMS, *INVARIANT, *CARRIED, *BLACKWELL, *PASSED])
def test_every_form_is_written_or_refused_with_its_line(kernel: str) -> None:
    refused: TwillError | None = None
    try:
        written(kernel)
    except TwillError as problem:
        refused = problem
    assert refused is None or (refused.location and refused.help)


@needs_triton
def test_the_partition_is_that_of_the_program() -> None:
    """One region for each group, with its warps and registers."""
    one = program("fa_fwd_subtiled")
    text = compiled(source(one), one.function, "sm90").ttgir
    assert text.count("ttg.warp_specialize(") == 1
    assert "num_warps(4)" in text
    assert "num_warps(1)" in text
    assert "requestedRegisters = array<i32: 24, 240>" in text


def test_a_smaller_number_of_slots_reaches_the_kernel() -> None:
    assert "[3, 128, 64]" in source(changed("gemm", Options(depths={"x_y": 3})))


def test_a_program_for_other_warps_is_refused_with_its_line() -> None:
    one = program("gemm")
    other = replace(one.module, attributes={**one.module.attributes, "ttg.num-warps": 16})
    with pytest.raises(TwillError, match="no group has the 16 warps") as refused:
        source(replace(one, module=other))
    assert refused.value.location == one.function.location
    assert refused.value.help


def test_layouts_of_groups_with_other_numbers_of_warps() -> None:
    blocked = Blocked((1, 8), (4, 8), (8, 1), (1, 0))
    assert scaled_to(blocked, 1) == Blocked((1, 8), (4, 8), (1, 1), (1, 0))
    assert scaled_to(Blocked((1,), (32,), (4,), (0,)), 8) == Blocked((1,), (32,), (8,), (0,))
    accumulator = NvidiaMma((3, 0), (8, 1), (16, 128, 16))
    assert scaled_to(accumulator, 8) == accumulator
    assert scaled_to(Slice(0, accumulator), 1) == Slice(0, Blocked((1, 2), (8, 4), (1, 1), (1, 0)))
    rows = Linear(((1,),), ((2,),), ((4,), (8,)), ())
    assert scaled_to(rows, 1) == Linear(((1,), (4,), (8,)), ((2,),), (), ())
    with pytest.raises(ValueError, match="laid out for 4"):
        scaled_to(rows, 8)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("gemm_persistent.sm100", "alternate"),
        ("gemm_pairs.sm100", "pairs of thread blocks"),
        ("gemm_clustered", "cluster share"),
        ("fa_fwd_subtiled_polynomial.sm100", "polynomials"),
    ],
)
def test_what_only_the_cuda_has_is_not_exported(kernel: str, reason: str) -> None:
    _, scheduled = loops(kernel)
    with pytest.raises(TwillError, match=reason):
        exported(Generated(Inputs(kernel), program(kernel), scheduled, {}, ""), "gluon")
