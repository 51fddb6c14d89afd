"""Descriptors made by the host become addresses, and operations that make them."""

import shutil
from pathlib import Path
from re import findall

import pytest

pytest.importorskip("triton")

from twill.diagnostics import TwillError
from twill.emulate.build import Request, run
from twill.emulate.build import load as load_build
from twill.extract.dependence.loops import loops
from twill.extract.frontend.descriptors import DESCRIPTOR, EXTENT, device_descriptors
from twill.extract.frontend.persistent import persistent
from twill.extract.frontend.source import load
from twill.extract.frontend.triton import capture, validate
from twill.extract.reader.ttgir import read
from twill.generation.generate import files, generate
from twill.inputs import Inputs
from twill.ir.loop import Module, Pointer, Scalar

KERNELS = Path(__file__).parents[1] / "kernels.py"


@pytest.fixture(scope="module")
def module() -> Module:
    return load(f"{KERNELS}:host_gemm", "sm90")


def test_arguments_and_operations(module: Module) -> None:
    made = device_descriptors(module)
    (function,) = made.functions
    assert [arg.type for arg in function.args[:5]] == [
        Pointer(Scalar("f16")),
        *[Scalar("i32")] * 2,
        *[Scalar("i64")] * 2,
    ]
    assert function.arg_attributes[0] == {DESCRIPTOR: (128, 64), "tt.divisibility": 16}
    assert [EXTENT in attributes for attributes in function.arg_attributes[:6]] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    assert [op.name for op in function.walk()][:4] == ["arith.constant", *["tt.make_tensor_descriptor"] * 3]
    assert len(made.text.splitlines()) == len(module.text.splitlines())
    assert [loop.path for loop in loops(made)] == [loop.path for loop in loops(module)]


def test_triton_accepts_the_text(module: Module) -> None:
    assert validate(device_descriptors(module).text, "sm90") == ()


def test_other_kernels_stay_as_they_are() -> None:
    module = load("examples/ttgir/gemm.sm90.ttgir")
    assert device_descriptors(module) is module


def test_a_persistent_kernel_makes_them_once(module: Module) -> None:
    ops = [op.name for op in device_descriptors(persistent(module)).functions[0].body.blocks[0].ops]  # pyright: ignore[reportOptionalMemberAccess]
    assert ops.index("tt.make_tensor_descriptor") < ops.index("scf.for")


def test_arguments_without_their_shape(module: Module) -> None:
    text = module.text.replace("%a_desc.shape.1: i32", "%a_desc.shape.1: i64", 1)
    with pytest.raises(TwillError, match="a_desc is not followed by its shape and strides"):
        device_descriptors(read(text, "f"))


def test_the_kernel_that_is_generated() -> None:
    """Its launcher makes tensor maps from the numbers that the descriptor brings."""
    made = files(generate(Inputs(f"{KERNELS}:host_gemm", arch="sm90")))
    assert (
        '{"name": "a_desc", "type": "*f16", "divisible": 16, "descriptor": [128, 64]}'
        in made["kernel.json"]()
    )
    (line,) = [line for line in made["kernel.cu"]().splitlines() if "tensor_map<2>(&map_a_desc" in line]
    assert findall(r"a_desc[\w]*", line)[1:] == [
        "a_desc",
        "a_desc_shape_1",
        "a_desc_shape_0",
        "a_desc_stride_0",
    ]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_its_values(tmp_path: Path) -> None:
    """A ragged product, by the launcher that makes the tensor maps, instruction by instruction."""
    for name, text in files(generate(Inputs(f"{KERNELS}:host_gemm", arch="sm90"))).items():
        (tmp_path / name).write_text(text())
    rows = {f"{name}_desc.shape.0": size for name, size in (("a", 120), ("b", 128), ("c", 120))}
    columns = {f"{name}_desc.shape.1": size for name, size in (("a", 200), ("b", 200), ("c", 128))}
    steps = {f"{name}_desc.stride.0": size for name, size in (("a", 200), ("b", 200), ("c", 128))}
    compared = run(load_build(tmp_path), Request({**rows, **columns, **steps, "K": 256}))
    assert [one.argument for one in compared if one.changed] == ["c_desc"]
    assert all(one.good for one in compared), compared


def test_schedules_do_not_depend_on_it() -> None:
    text = capture(str(KERNELS), "host_gemm", "sm90", {})
    module = read(text, "f")
    for loop, other in zip(loops(module), loops(device_descriptors(module)), strict=True):
        assert [op.name for op in loop.ops] == [op.name for op in other.ops]
