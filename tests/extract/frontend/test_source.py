"""What a user names, to a module: files, kernels, and all that can be wrong about them."""

from pathlib import Path

import pytest

from twill.diagnostics import TwillError
from twill.extract.frontend.source import load

GEMM = "examples/ttgir/gemm.sm90.ttgir"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])


def test_a_file() -> None:
    assert load(GEMM, "sm90").file == load(GEMM).file == GEMM


@pytest.mark.parametrize(
    ("spec", "arch", "settings", "message"),
    [
        ("nowhere.ttgir", None, {}, "cannot read nowhere.ttgir"),
        ("examples", None, {}, "cannot read examples"),
        (GEMM, "sm100", {}, "is compiled for sm90, not for sm100"),
        (GEMM, "hopper", {}, "`hopper` is no architecture"),
        (GEMM, "SM_100A", {}, "is compiled for sm90, not for sm100"),
        (GEMM, "sm90", {"BLOCK_M": "64"}, "--set has nothing to set"),
        ("examples/kernels.py", "sm90", {}, "examples/kernels.py has several kernels: "),
        ("nowhere.py", "sm90", {}, "cannot read nowhere.py: No such file"),
        ("tests/conftest.py", "sm90", {}, "tests/conftest.py has no function with @triton.jit"),
        ("examples/kernels.py:gemm", None, {}, "can be compiled for several architectures"),
        ("examples/kernels.py:gemm", "sm80", {}, "architecture `sm80` is not supported"),
    ],
)
def test_mistakes(spec: str, arch: str | None, settings: dict[str, str], message: str) -> None:
    with pytest.raises(TwillError) as caught:
        load(spec, arch, settings)
    assert message in caught.value.message


def test_the_only_kernel_of_a_file_needs_no_name(tmp_path: Path) -> None:
    text = """
import triton
import triton.language as tl


@triton.jit
def double(x):
    tl.store(x, 2 * tl.load(x))
"""
    (tmp_path / "one.py").write_text(text)
    assert load(str(tmp_path / "one.py"), "sm90", {"x": "*fp32"}).file == "double.sm90.ttgir"


def test_helpers_and_kernels_without_a_dot_are_not_meant(tmp_path: Path) -> None:
    """Of a file with several functions, the one that leads to a dot and is no other's part; two of them are
    named, and nothing else."""
    text = """
import triton
import triton.language as tl


@triton.jit
def zero(x):
    tl.store(x, 0.0)


@triton.jit
def inner(a, b, acc):
    return tl.dot(a, b, acc)


@triton.jit
def outer(x, o, steps):
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    for step in range(steps):
        a = tl.load(x + at)
        acc = inner(a, a, acc)
        x += 4096
    tl.store(o + at, acc)
"""
    file = tmp_path / "several.py"
    file.write_text(text)
    types = {"x": "*fp16:16", "o": "*fp32:16", "steps": "i32"}
    assert load(str(file), "sm90", types).file == "outer.sm90.ttgir"
    file.write_text(text + text[text.index("@triton.jit\ndef outer") :].replace("outer", "other"))
    with pytest.raises(TwillError, match="has several kernels: outer, other\n"):
        load(str(file), "sm90", types)


def test_binary_files(tmp_path: Path) -> None:
    (tmp_path / "x.ttgir").write_bytes(bytes(range(256)))
    with pytest.raises(TwillError, match="not a text file"):
        load(str(tmp_path / "x.ttgir"))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Some editors and shells begin a file with it."""
    (tmp_path / "x.ttgir").write_text(Path(GEMM).read_text(), encoding="utf-8-sig")
    assert load(str(tmp_path / "x.ttgir"), "sm90", {}).text == Path(GEMM).read_text()


def test_a_syntax_error_is_marked(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("import os\n\ndef k(: pass\n")
    with pytest.raises(TwillError) as caught:
        load(f"{tmp_path}/k.py:k", "sm90", {})
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/k.py:3:7: error: SyntaxError: invalid syntax",
        "    def k(: pass",
        "          ^",
    ]


def dump(*passes: str) -> str:
    """A compilation's dump in the banners of Triton 3.9; the module before each pass has as many functions as
    passes before it."""
    return "".join(
        f"// -----// IR Dump Before {name}: some-name{{a=1}} ('builtin.module' operation) //----- //\nmodule"
        " {\n"
        + "".join(f"  tt.func @f{number}() {{\n    tt.return\n  }}\n" for number in range(k))
        + "}\n\n\n"
        for k, name in enumerate(passes)
    )


@pytest.mark.parametrize(
    ("passes", "functions"),
    [
        (["ConvertTritonToTritonGPU", "CSEPass", "TritonGPUAssignLatencies", "TritonGPUPipeline"], 2),
        (["ConvertTritonToTritonGPU", "NVGPUWarpSpecialization", "SomeStep", "TritonGPUAssignLatencies"], 1),
    ],
)
def test_dumps_of_a_compilation(tmp_path: Path, passes: list[str], functions: int) -> None:
    text = dump(*passes)
    (tmp_path / "dump.txt").write_text(text)
    module = load(str(tmp_path / "dump.txt"))
    assert [function.name for function in module.functions] == [f"f{k}" for k in range(functions)]
    place = module.functions[0].location
    assert text.split("\n")[place.line - 1][place.column - 1 :].startswith("tt.func @f0")
    assert module.text.count("\n") <= text.count("\n")


@pytest.mark.parametrize(
    ("passes", "count"), [(["CSEPass"], 0), (["ConvertTritonToTritonGPU", "TritonGPUAssignLatencies"] * 2, 2)]
)
def test_dumps_with_none_or_several(tmp_path: Path, passes: list[str], count: int) -> None:
    (tmp_path / "dump.txt").write_text(dump(*passes))
    with pytest.raises(TwillError, match=f"holds {count} modules before a pass that schedules"):
        load(str(tmp_path / "dump.txt"))


def test_a_kernel_of_a_dump_is_chosen_by_name_or_by_line(tmp_path: Path) -> None:
    one = dump("ConvertTritonToTritonGPU", "TritonGPUAssignLatencies")
    other = dump("CSEPass", "ConvertTritonToTritonGPU", "TritonGPUAssignLatencies").replace("@f", "@g")
    file, text = tmp_path / "dump.txt", one + other
    file.write_text(text)
    first, last = (part.count("\n", 0, part.rindex("// -----//")) + 1 for part in (one, text))
    for which, names in (
        ("f0", ["f0"]),
        (f"{first}", ["f0"]),
        ("g1", ["g0", "g1"]),
        (f"{last}", ["g0", "g1"]),
    ):
        assert [function.name for function in load(f"{file}:{which}").functions] == names
    for which, example in (("", "g0"), (":h0", "g0"), (":2", "g0")):
        with pytest.raises(TwillError, match=rf"f0 \(line {first}\), g0 and g1 \(line {last}\)") as caught:
            load(f"{file}{which}")
        assert f"{file}:{example}" in str(caught.value)
    file.write_text(one + one)
    with pytest.raises(TwillError, match="holds 2 modules of f0") as caught:
        load(f"{file}:f0")
    assert f"{file}:{one.count(chr(10)) + first}" in str(caught.value)


def test_a_file_that_is_no_dump_has_nothing_to_choose(tmp_path: Path) -> None:
    (tmp_path / "x.ttgir").write_text("module {\n  tt.func @f() {\n    tt.return\n  }\n}\n")
    with pytest.raises(TwillError, match="--loop"):
        load(f"{tmp_path / 'x.ttgir'}:f")


ASSERTS = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(a):\n"


class TestKernels:
    """These need Triton."""

    @pytest.fixture(autouse=True)
    def triton(self) -> None:
        pytest.importorskip("triton")

    def test_a_kernel(self) -> None:
        module = load("examples/kernels.py:gemm", "sm90", {"BLOCK_N": "128", "num_warps": "4"})
        assert (module.file, module.num_warps, module.target) == ("gemm.sm90.ttgir", 4, "cuda:90")
        assert "tensor<128x128xf32" in module.text

    @pytest.mark.parametrize(
        ("source", "message", "line"),
        [
            ("", "has no Triton kernel `k`", None),
            ("def k(): pass", "has no Triton kernel `k`", None),
            ("import nothing_here", "ModuleNotFoundError", 1),
            ("x = 1\ny = 1 / 0", "ZeroDivisionError: division by zero", 2),
            ("def k(:", "SyntaxError", 1),
            ("import triton\n\n@triton.jit\ndef k(a):\n    x = a + b\n", "Triton does not compile k", 5),
            ("import triton\n@triton.jit\ndef k(a, b): pass\n", "`b` has no type", None),
            ("import triton.nothing_here", "No module named 'triton.nothing_here'", 1),
            (f"{ASSERTS}    tl.static_assert(1 > 2)\n", "`tl.static_assert(1 > 2)` fails", 5),
            (f"{ASSERTS}    tl.static_assert(1 > 2, 'one is less')\n", "static_assert fails: one is less", 5),
        ],
    )
    def test_mistakes(self, tmp_path: Path, source: str, message: str, line: int | None) -> None:
        (tmp_path / "k.py").write_text(source)
        with pytest.raises(TwillError) as caught:
            load(f"{tmp_path}/k.py:k", "sm90", {"a": "i32"})
        assert message in caught.value.message
        assert (caught.value.location and caught.value.location.line) == line

    def test_autotuned_kernels_take_their_first_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "k.py").write_text(
            "import triton\nimport triton.language as tl\n"
            "@triton.autotune([triton.Config({'B': 64}, num_warps=2), triton.Config({'B': 32})], key=[])\n"
            "@triton.jit\ndef k(a: '*fp32', B: tl.constexpr):\n    tl.store(a + tl.arange(0, B), 1.0)\n"
        )
        module = load(f"{tmp_path}/k.py:k", "sm100")
        assert module.num_warps == 2
        assert "tensor<64xf32" in module.text

    @pytest.mark.parametrize(
        ("name", "type"),
        [("tl.bfloat16", "bf16"), ("triton.language.uint8", "i8"), ("torch.float8_e5m2", "f8E5M2")],
    )
    def test_a_constant_may_be_a_type(self, tmp_path: Path, name: str, type: str) -> None:
        (tmp_path / "k.py").write_text(
            "import triton\nimport triton.language as tl\n@triton.jit\ndef k(a: '*fp32', T: tl.constexpr):\n "
            "   b = a.to(tl.pointer_type(T))\n    tl.store(b, tl.load(a).to(T))\n"
        )
        assert f"tt.ptr<f32> -> !tt.ptr<{type}>" in load(f"{tmp_path}/k.py:k", "sm90", {"T": name}).text

    def test_the_table_of_another_kernel_is_no_help(self, tmp_path: Path) -> None:
        (tmp_path / "k.py").write_text(
            "import triton\n@triton.jit\ndef k(a):\n    pass\nTWILL = {'j': {'a': '*fp16'}}\n"
        )
        with pytest.raises(TwillError, match="`a` has no type"):
            load(f"{tmp_path}/k.py:k", "sm90")
