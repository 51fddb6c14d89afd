"""The check before a kernel is handed over: which problems it runs, and that it finds programs that compute
wrong values."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kernels.programs import CARRIED, EXAMPLES, INVARIANT, program
from tests.simulate.mutate import mutants
from tests.simulate.test_hazards import dropped
from tests.simulate.test_index_arrays import CAUSAL, kernel
from tests.simulate.test_values import grid
from twill.cli import run
from twill.diagnostics import TwillError
from twill.emulate.check import _request, chosen
from twill.extract.reader.ttgir import read as read_ttgir
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.loop import Scalar, Value
from twill.ir.statements import InitializeCarried, MmaIssue, MmaWait
from twill.launch.manifest import NOT_SAID, read
from twill.simulate.check import Trial, apart, by_use, check, far, trials
from twill.simulate.compare import TOLERANCE, Compared, collide, of_order, wrong
from twill.simulate.divisors import without_zeros

GEMM, SCHEDULE = "examples/ttgir/gemm.sm90.ttgir", "tests/kernels/schedules/gemm.for.0.json"
KEPT = ("--schedule", SCHEDULE, "--keep-schedules")


@pytest.mark.parametrize(
    "kernel", [*(one for one in EXAMPLES if one != "gemm_persistent"), *CARRIED, *INVARIANT]
)
def test_loops_run_nought_to_four_times(kernel: str) -> None:
    found = {count for trial in trials(program(kernel)) for count in trial.trips}
    assert found >= ({0, 1} if kernel == "fa_fwd_causal" else {0, 1, 2, 3, 4})


@pytest.mark.parametrize("kernel", ["gemm_persistent", "gemm_persistent.sm100", "flattened"])
def test_a_block_computes_several_tiles_of_several_iterations(kernel: str) -> None:
    """The second tile begins in the middle of the slots; the PTX is executed with such a problem."""
    (loop,) = {len(trial.trips) for trial in trials(program(kernel))}
    assert loop == 1
    found = {(trial.trips[0], trial.longest[0]) for trial in trials(program(kernel))}
    assert any(each and total and 1 < each < total for total, each in found)
    first, *_ = chosen(program(kernel))
    assert first.continued


def test_loops_in_loops_run_few_times() -> None:
    """Sizes that bound two loops, one in the other, grow together."""
    counts = [sum(filter(None, trial.trips)) for trial in trials(program("nested"))]
    assert 1 < max(counts) < 50


def test_a_kernel_that_walks_over_many_tiles_is_one_of_many_programs(tmp_path: Path) -> None:
    """Their number is a constant: each of two programs would compute thousands of tiles."""
    assert {trial.grid["grid.x"] for trial in trials(program("alternating"))} == {2}
    text = Path("tests/kernels/ttgir/alternating.sm90.ttgir").read_text()
    many = re.sub(r"%3 = arith.muli %rows_4, %2 : i32", "%3 = arith.constant 4096 : i32", text)
    assert many != text
    (tmp_path / "many.ttgir").write_text(many)
    inputs = Inputs(str(tmp_path / "many.ttgir"), arch="sm90")
    made = generate(inputs, GenerateOptions(time_limit=10, check=False)).program
    assert {trial.grid["grid.x"] for trial in trials(made)} == {256}
    assert max(sum(filter(None, trial.trips)) for trial in trials(made)) < 100


def test_sizes_are_full_and_ragged() -> None:
    sizes = {trial.numbers["K"] for trial in trials(program("gemm"))}
    assert {size % 64 for size in sizes} > {0}
    assert 0 < min(trial.numbers["M"] for trial in trials(program("gemm"))) < 128


def test_a_loop_of_one_iteration_has_work() -> None:
    """Its count says nothing of sizes: a middle one is tried, where the smallest is 0."""
    assert all(trial.numbers["K"] > 0 for trial in trials(program("straight")))


def test_a_kernel_may_have_any_number_of_strides() -> None:
    made = program("gemm")
    args = made.function.args
    strides = tuple(Value(-1 - i, f"%stride_{i}", Scalar("i32"), None, len(args) + i) for i in range(100))
    attributes = (*made.function.arg_attributes, *made.function.arg_attributes[-1:] * len(strides))
    function = replace(made.function, args=(*args, *strides), arg_attributes=attributes)
    found = trials(replace(made, function=function))
    assert {trial.trips for trial in found} == {trial.trips for trial in trials(made)}
    assert all(trial.numbers["stride_99"] > 0 for trial in found)


@pytest.mark.parametrize("kernel", ["gemm", "exclusive", "biased"])
def test_a_kernel_passes(kernel: str) -> None:
    done = list[str]()
    checked = check(program(kernel), done.append)
    assert checked.values > 1000
    assert not any(one.skipped for one in checked.runs)
    assert len(done) == len(checked.runs) + len(checked.iterations)


def test_values_that_are_wrong_are_found() -> None:
    """Without the initial value of what the loop carries; with an MMA that forgets what it adds to; with its
    operands changed."""
    made = list(mutants(program("exclusive"), dropped(InitializeCarried)))
    made += mutants(
        program("biased"), lambda s: (replace(s, accumulate="never"),) if isinstance(s, MmaIssue) else None
    )
    made += mutants(program("gemm"), lambda s: () if isinstance(s, MmaWait) and not s.early else None)
    assert len(made) >= 3
    for where, mutant in made:
        try:
            check(mutant)
        except TwillError:
            continue
        pytest.fail(where)


def test_the_kernel_says_what_was_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["codegen", GEMM, *KEPT, "--no-build", "--out"]
    assert run([*command, str(tmp_path / "a")]) == 0
    checked = read((tmp_path / "a" / "kernel.json").read_text(), "kernel.json").checked
    assert checked
    assert [one.trips for one in checked.runs][:5] == [(0,), (1,), (2,), (3,), (4,)]
    assert checked.values > 100_000
    by = [one.by for one in checked.runs]
    assert by.count("emulator") == (shutil.which("nvcc") is not None)  # built or not
    assert run([*command, str(tmp_path / "b"), "--no-check"]) == 0
    text = (tmp_path / "b" / "kernel.json").read_text()
    assert json.loads(text)["checked"] is None
    document = json.loads(text)
    del document["checked"]
    assert read(json.dumps(document), "kernel.json").checked == NOT_SAID
    assert "warning: no value" not in capsys.readouterr().err


def test_a_kernel_that_computes_wrong_values_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twill.warp.steady_state._accumulate", lambda *_: "never")  # pyright: ignore
    command = ["codegen", GEMM, *KEPT, "--no-build", "--out", str(tmp_path)]
    assert run(command) == 2
    assert "--no-check" in (said := capsys.readouterr().err) or "before it is assigned" in said
    assert not list(tmp_path.iterdir())
    assert run([*command, "--no-check"]) == 0


def test_programs_of_a_grid_that_write_to_the_same_places() -> None:
    """The kernel does not ask for its number along z: programs that differ in it alone compute one tile."""
    made = generate(Inputs(GEMM, arch="sm90", persistent=True), GenerateOptions(check=False)).program
    trial = max(trials(made), key=lambda one: one.trips[0] or 0)
    extents = [f"twill_grid_{axis}" for axis in "xyz"]

    def meet(*grid: int) -> bool:
        return collide(made, {**trial.numbers, **dict(zip(extents, grid, strict=True))}, trial.grid, 2)

    assert meet(1, 1, 2)
    assert not meet(2, 1, 1)
    assert apart(made, trial, ((1, 1, 2), (2, 1, 2), (2, 1, 1))) == (2, 1, 1)
    with pytest.raises(TwillError, match="write to the same places"):
        apart(made, trial, ((1, 1, 2),))


@pytest.mark.parametrize(
    ("kernel", "kind", "error", "right"),
    [
        ("gemm", "f32", 3e-4, False),
        ("summed_columns", "f32", 3e-4, False),
        ("reread", "f32", 3e-4, True),
        ("reread", "f32", 3e-2, False),
        ("reread", "i32", 3e-4, False),
    ],
)
def test_sums_in_16_bits_depend_on_their_order(kernel: str, kind: str, error: float, right: bool) -> None:
    """Also where they are stored as f32."""
    found = Compared("c", error, True, kind, 10)
    assert (wrong(program(kernel).function, [found]) is None) == right


def test_maxima_in_16_bits_are_the_same_in_every_order() -> None:
    """A reduction that only chooses among its operands allows no error."""
    text = Path("tests/kernels/ttgir/tallied.sm90.ttgir").read_text()
    most, changed = re.subn(r"arith\.addf( %\w+, %\w+ : bf16)", r"arith.maxnumf\1", text)
    assert changed == 1
    assert of_order(program("tallied").function) == TOLERANCE["bf16"]
    assert of_order(read_ttgir(most, "most").functions[0]) == 0.0


def test_sizes_are_such_as_tensor_maps_describe() -> None:
    """Rows of 4-bit floats, two in a byte, at multiples of 16 bytes: of 32 elements, while 16 divide K."""
    sizes = {int(trial.numbers["K"]) for trial in trials(program("gemm_nvfp4.sm100"))}
    assert len(sizes) > 3
    assert all(size % 32 == 0 for size in sizes)


def test_no_scalar_is_divided_by_zero() -> None:
    """Programs of the grid are divided among heads: not by more heads than programs, of which the PTX is
    executed with one. What is 0 because a loop does not run stays."""
    found = trials(program("kindred"))
    assert {trial.numbers["heads"] for trial in found} == {1}
    assert {trial.longest[0] for trial in found} >= {0, 1, 2, 3, 4}


def test_divisors_keep_what_is_promised() -> None:
    """A multiple of 16 divides no grid of two; what no smaller number mends stays as it is."""
    function = program("kindred").function
    promised = tuple({"tt.divisibility": 16} if arg.name == "%heads" else {} for arg in function.args)
    heads = frozenset(arg.id for arg in function.args if arg.name == "%heads")
    few, many = ({**dict.fromkeys(("pid.x", "pid.y"), 0), "grid.x": extent} for extent in (2, 32))
    numbers = {"heads": 512.0, "K": 64.0}
    assert without_zeros(function, numbers, (few, many), heads) == {"heads": 1.0, "K": 64.0}
    multiples = replace(function, arg_attributes=promised)
    assert without_zeros(multiples, numbers, (many,), heads) == {"heads": 16.0, "K": 64.0}
    assert without_zeros(multiples, numbers, (few,), heads) == numbers
    assert without_zeros(function, numbers, (few,), frozenset()) == numbers


def test_no_loop_steps_by_zero(tmp_path: Path) -> None:
    """By a tile for each 16 programs of an axis (fla's gradients of a table of phases): there are as many."""
    text = Path("tests/kernels/ttgir/kindred.sm90.ttgir").read_text()
    programs = (
        "%programs = tt.get_num_programs z : i32",
        "%sixteen = arith.constant 16 : i32",
        "%splits = arith.divsi %programs, %sixteen : i32",
        "%stride = arith.muli %splits, %c64_i32 : i32",
    )
    loop = re.search(r"%acc_9 = scf.for .* step %c64_i32", text)
    assert loop is not None
    stepped = "\n".join((*programs, loop[0].replace("%c64_i32", "%stride")))
    (tmp_path / "steps.ttgir").write_text(text.replace(loop[0], stepped))
    inputs = Inputs(str(tmp_path / "steps.ttgir"), arch="sm90")
    made = generate(inputs, GenerateOptions(time_limit=10)).program
    found = trials(made)
    assert {trial.grid["grid.z"] for trial in found} == {16}
    assert {trial.longest[0] for trial in found} >= {0, 1, 2, 3, 4}
    assert all(_request(made, trial, (1, 1, 1)).grid[2] == 16 for trial in found)


def test_a_kernel_that_reads_indices_is_tried_in_a_late_program() -> None:
    """Where it reads more there: its first program may read one element of the listed ones."""
    causal: Any = SimpleNamespace(function=kernel(CAUSAL), groups=())
    first = Trial({}, grid(0, 0, (2, 2)), (), ())
    (late,) = far(causal, first)
    assert (late.grid["pid.x"], late.grid["grid.x"]) == (100, 101)
    assert not list(far(causal, late)), "no other one reads more"
    assert not list(far(program("gemm"), trials(program("gemm"))[0])), "it reads no indices"


def test_the_ptx_is_executed_in_a_late_program() -> None:
    early, late = (Trial({}, grid(place, 0, (101, 2)), (4,), (4,)) for place in (0, 100))
    assert by_use([late, early])[0] == late
