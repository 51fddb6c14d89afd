"""Tile sizes that are no powers of two: the text of a kernel follows from three that Triton compiles."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from twill.diagnostics import TwillError
from twill.extract.frontend.source import load
from twill.extract.frontend.tiles import instantiated
from twill.inputs import Inputs, cases
from twill.ir.distribution import distribution
from twill.ir.loop import Blocked, NvidiaMma, Scalar, Slice, Tensor
from twill.ops.rules import mma, shape
from twill.ops.table import role

KERNEL = "tests/kernels/kernels.py:masked"


def text(sizes: Callable[[int], str], *, order: int = 256) -> Callable[[int], str]:
    """A kernel's text by its size; from `order` on with other names."""
    return lambda n: f"%{'c' if n < order else 'd'}{n} = constant {sizes(n)} : tensor<64x{n}xf32, #mma>"


LINEAR: tuple[tuple[Callable[[int], str], str], ...] = (
    (str, "176"),
    (lambda n: f"{2 * n - 3}", "349"),
    (lambda n: f"{512 - n}", "336"),
    (lambda _: "7", "7"),
)


@pytest.mark.parametrize(("sizes", "found"), LINEAR)
def test_numbers_are_linear_functions(sizes: Callable[[int], str], found: str) -> None:
    made = instantiated(text(sizes), "N", 176)
    assert made == f"%d256 = constant {found} : tensor<64x176xf32, #mma>"


NOT_LINEAR: tuple[Callable[[int], str], ...] = (
    lambda n: str(n * n),
    lambda n: str(n.bit_length()),
    lambda n: str(min(n, 100)),
    lambda n: "a" if n > 64 else "b",
    lambda n: "1, 2" if n > 64 else "1",
    lambda n: "%a, %a" if n == 256 else "%a, %b",
)


@pytest.mark.parametrize("sizes", NOT_LINEAR)
def test_what_is_no_linear_function_is_refused(sizes: Callable[[int], str]) -> None:
    with pytest.raises(TwillError, match="no linear function of N"):
        instantiated(text(sizes), "N", 176)


def function(lines: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: f"  tt.func @f() {{\n{lines(n)}\n  }}"


def constants(n: int) -> str:
    """Where the size is 128, it shares a constant with another number."""
    names = {n: f"%c{n}_i32", 128: "%c128_i32"}
    defined = "\n".join(f"    {name} = arith.constant {one} : i32" for one, name in names.items())
    return (
        f"{defined}\n    %minus = arith.constant {-n} : i64\n    use {names[n]}, {names[128]}, %minus, %cst"
    )


def test_sizes_may_share_a_constant() -> None:
    defined = ("%c176_i32 = arith.constant 176 : i32", "%c128_i32 = arith.constant 128 : i32")
    wanted = "\n".join(f"    {one}" for one in (*defined, "%cm176_i64 = arith.constant -176 : i64"))
    assert instantiated(function(constants), "N", 176) == (
        f"  tt.func @f() {{\n{wanted}\n    use %c176_i32, %c128_i32, %cm176_i64, %cst\n  }}"
    )


def test_each_function_defines_its_constants() -> None:
    made = instantiated(lambda n: f"{function(constants)(n)}\n{function(constants)(n)}", "N", 176)
    assert made == "\n".join([instantiated(function(constants), "N", 176)] * 2)


CONSTANTS_DIFFER: tuple[Callable[[int], str], ...] = (
    lambda n: f"    %a = arith.constant {n * n} : i32\n    use %a",
    lambda n: f"    %a = arith.constant 1 : {'i32' if n > 64 else 'i64'}\n    use %a",
    lambda n: f"    %a = arith.constant 1 : i32\n    use {'%a' if n > 64 else '%b'}",
)


@pytest.mark.parametrize("lines", CONSTANTS_DIFFER)
def test_constants_that_differ_in_more_are_refused(lines: Callable[[int], str]) -> None:
    with pytest.raises(TwillError, match="no linear function of N"):
        instantiated(function(lines), "N", 176)


def layouts(n: int) -> str:
    """Of rows of n elements of 16 bits: a warp's threads along them, the swizzle, and an accumulator. Where
    rows have 64 elements, both tiles have one layout."""
    along = min(32, n // 8)
    blocked = f"#ttg.blocked<{{threads = [{32 // along}, {along}]}}>"
    other = "#ttg.blocked<{threads = [4, 8]}>"
    defined = {blocked: "#blocked", other: "#blocked1"}
    lines = [f"{name} = {one}" for one, name in reversed(defined.items())]
    swizzled = f"#ttg.nvmma_shared<{{swizzle = {min(128, 2 * n)}}}>"
    lines += [f"#shared = {swizzled}", f"#mma = #ttg.mma<{{instrShape = [16, {n}]}}>"]
    return "\n".join([*lines, f"use {defined[blocked]}, {defined[other]}, #shared, #mma"])


@pytest.mark.parametrize(("size", "divisor", "swizzle"), [(192, 64, 128), (224, 32, 64), (176, 16, 32)])
def test_layouts_are_those_of_a_size_that_divides(size: int, divisor: int, swizzle: int) -> None:
    found = instantiated(layouts, "N", size)
    *defined, use = found.split("\n")
    kinds = dict(line.split(" = ", 1) for line in defined)
    blocked, other, shared, mma = (kinds[name] for name in use.removeprefix("use ").split(", "))
    assert blocked == f"#ttg.blocked<{{threads = [{256 // divisor}, {divisor // 8}]}}>"
    assert other == "#ttg.blocked<{threads = [4, 8]}>"
    assert shared == f"#ttg.nvmma_shared<{{swizzle = {swizzle}}}>"
    assert mma == f"#ttg.mma<{{instrShape = [16, {size}]}}>"


def test_layouts_of_other_kinds_are_refused_where_no_size_divides() -> None:
    with pytest.raises(TwillError, match="no linear function of N"):
        instantiated(
            lambda n: f"#a = {'#ttg.a' if n > 16 else '#ttg.b'}<{{[{n}, 1]}}>\nuse #a, {n * n}", "N", 80
        )


@pytest.mark.parametrize("size", [8, 16, 100, 256, 272])
def test_sizes_that_no_instruction_takes_are_refused(size: int) -> None:
    with pytest.raises(TwillError, match="multiples of 16") as error:
        instantiated(text(str), "N", size)
    assert error.value.help


def test_shapes_steps_and_masks_follow() -> None:
    module = load(KERNEL, "sm90", {}, ("BLOCK_N", 176))
    assert module.constants["BLOCK_N"] == 176
    assert module.text.count("176") > 20
    assert "end = 176 : i32" in module.text
    (case,) = cases(Inputs(KERNEL, arch="sm90", tile=("BLOCK_N", 176), subtile=1))
    scores = next(value for value in case.problem.values if value.id.startswith("dot.s0"))
    assert scores.registers == 176 * 64 // 128


@pytest.mark.parametrize(
    ("spec", "tile", "arch", "said"),
    [
        (KERNEL, ("BLOCK_N", 176), "sm100", "sm90 alone"),
        (KERNEL, ("BLOCK", 176), "sm90", "no linear function|no constexpr|BLOCK"),
        ("tests/kernels/ttgir/masked.sm90.ttgir", ("BLOCK_N", 176), "sm90", "FILE.py:function"),
    ],
)
def test_bad_input_is_refused(spec: str, tile: tuple[str, int], arch: str, said: str) -> None:
    with pytest.raises(TwillError, match=said):
        load(spec, arch, {}, tile)


def test_k_is_a_multiple_of_what_an_instruction_takes() -> None:
    """176 elements of 8 bits are five and a half instructions."""
    module = load(KERNEL, "sm90", {}, ("BLOCK_N", 176))
    found = (
        op for op in module.functions[0].walk() if role(op) == "wgmma" and shape(op.operands[0])[-1] == 176
    )
    second = next(found)
    assert mma(second) is None
    a, *others = second.operands
    assert isinstance(a.type, Tensor)
    narrow = replace(a, type=replace(a.type, dtype=Scalar("f8E4M3FN")))
    assert "K = 176" in str(mma(replace(second, operands=(narrow, *others))))


def test_registers_repeat_a_layout_along_an_odd_size() -> None:
    mma = NvidiaMma((3, 0), (4, 1), (16, 176, 16))
    whole, part = distribution(mma, (64, 176)), distribution(mma, (64, 16))
    assert whole
    assert part
    assert (whole.per_thread, whole.held, whole.serial_along(1)) == (88, 64 * 176, 44)
    assert (whole.lane, whole.warp) == (part.lane, part.warp)
    assert not whole.moves_nothing_to(part)
    vector = distribution(Slice(0, mma), (176,))
    assert vector
    assert vector.per_thread == 44
    assert distribution(Blocked((1,), (32,), (4,), (0,)), (176,)) is None
