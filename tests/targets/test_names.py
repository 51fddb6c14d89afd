"""Names in generated CUDA: no name of the user is one of the generator."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.programs import FORMS, assemble, loops, program
from twill.extract.dependence.loops import loops as found
from twill.extract.reader.ttgir import read
from twill.ir.names import identifier, value_names
from twill.launch.build import RUNTIME as HEADERS
from twill.targets.cuda.names import RESERVED, RUNTIME, TEMPORARIES, c_name, channel, count, local
from twill.targets.hopper import TARGET, source
from twill.warp.lower import lower

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
GENERATED = (
    "i_",
    "n",
    "memory",
    "thread",
    "map_x",
    "count_x",
    "channel_x",
    "trips_0",
    "read_1",
    "x_age1",
    "group_1_barrier",
    "v_x",
    "u1_x",
)
WORSE = {"a": "count_x_y", "b": "thread", "c": "i_", "M": "channel_x_y", "N": "n", "K": "stream"}


@given(NAMES, NAMES)
def test_different_names_stay_different(one: str, other: str) -> None:
    assert (c_name(one) == c_name(other)) == (one == other)


@given(NAMES)
def test_no_name_is_reserved_or_derived(name: str) -> None:
    made = c_name(name)
    assert made not in RESERVED | RUNTIME
    assert not made.endswith("_")
    assert made not in (channel(name), count(name))


@pytest.mark.parametrize(
    "name", [*GENERATED, "float", "xor", "INFINITY", "tma_load", "cudaStream_t", "fmaxf"]
)
def test_names_of_the_generator_are_left_to_it(name: str) -> None:
    assert c_name(name) != name
    assert c_name(c_name(name)) != c_name(name)


@pytest.mark.parametrize("name", ["q", "acc", "M", "BLOCK_M", "scores_10", "lse", "slope", "length"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert c_name(name) == name


@given(NAMES, NAMES)
def test_variables_of_values_are_different_and_no_temporaries(one: str, other: str) -> None:
    assert (local(one) == local(other)) == (one == other)
    assert local(one).rstrip("_").rstrip("0123456789") not in TEMPORARIES


@pytest.mark.parametrize("name", ["v", "i", "to", "row", "b", "in0"])
def test_a_value_called_as_a_temporary_has_another_variable(name: str) -> None:
    """A loop over the vectors of a tile declares `v_`, and read it where it meant the value `v`."""
    assert local(name) == f"v_{name}_"


def test_every_temporary_of_the_generator_is_known() -> None:
    """Every declaration of a variable with a `_` at its end, in the texts of the generator."""
    declared = set[str]()
    for path in Path("twill/targets").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        kinds = r"(?:u?int(?:8|16|32|64)?(?:_t)?|float|bool|auto|char)"
        declared |= set(re.findall(rf"\b{kinds}[ *&]+([a-z]+)(?:\{{\w+\}})?_(?: =|;|\[)", text))
    assert len(declared) > 8
    assert declared <= TEMPORARIES


def test_every_function_of_the_runtime_is_reserved() -> None:
    declared = set[str]()
    for header in HEADERS.glob("*.cuh"):
        text = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
        function = (
            r"^(?:template <[^\n]*>\s*)?(?:__device__ __forceinline__|(?:static )?inline)[^\n(]*?\b(\w+)\("
        )
        declared |= set(re.findall(function, text, re.MULTILINE))
        declared |= set(re.findall(r"^(?:struct|class|enum) (\w+)", text, re.MULTILINE))
    assert {name for name in declared if c_name(name) == name} == set()


def test_libraries_of_a_process_share_no_variables() -> None:
    """One of an inline function is the same in all of them, those of the emulator too: such functions are
    static."""
    text = (HEADERS / "host.cuh").read_text(encoding="utf-8")
    found = re.findall(r"^((?:static )?inline)[^{;]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    keeping = [how for how, body in found if re.search(r"^    static ", body, re.MULTILINE)]
    assert len(found) >= 6
    assert keeping == ["static inline"] * 3


@pytest.mark.parametrize("kernel", FORMS)
def test_values_have_names_of_their_own(kernel: str) -> None:
    names = value_names(program(kernel).function)
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[A-Za-z]\w*", name) for name in names.values())
    assert not any(re.fullmatch(r"v\d+", name) for name in names.values())


@pytest.mark.parametrize("name", ["%a.b", "%0", "%été", "%$x", "%_"])
def test_any_name_of_the_text_becomes_an_identifier(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", identifier(name))


def renamed() -> str:
    """The CUDA of a matrix multiplication whose arguments are called as the generator calls its own."""
    module, (one,) = loops("gemm")
    text = module.text
    for old, new in WORSE.items():
        text = re.sub(rf"%{old}\b(?!_)", f"%{new}", text)
    odd = read(text, module.file)
    return source(lower(odd, [replace(one, loop=found(odd)[0])], TARGET))


def test_arguments_called_as_the_generator_calls_its_own() -> None:
    text = renamed()
    head = text[text.index("gemm_launch(") :].split(")")[0]
    parameters = [part.split()[-1] for part in head.split("(")[1].split(",")]
    assert parameters[:6] == [c_name(name) for name in WORSE.values()]
    assert len(set(parameters)) == len(parameters)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_they_compile(tmp_path: Path) -> None:
    said = assemble(renamed(), tmp_path)
    assert "warning" not in said
