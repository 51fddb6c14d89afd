# pyright: basic
"""What Triton's own compilation is tried with: forms of a kernel, its blocks, numbers of warps and stages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from twill.bench import contenders
from twill.bench.case import Bench
from twill.bench.contenders import Field, Form
from twill.bench.measure import spread
from twill.extract.frontend.arguments import Instance


@dataclass(frozen=True)
class Array:
    """What is seen of an array of PyTorch."""

    dtype: str
    shape: tuple[int, ...]
    name: str

    def stride(self) -> tuple[int, ...]:
        return (*self.shape[1:], 1)


def made(settings: Mapping[str, Any], n: int = 64) -> dict[str, Any]:
    x = Array("float16", (n, n), "x")
    partial = Array("float32", (n // settings["BLOCK"],), "partial")
    arguments, grid = {"x": x, "partial": partial}, (n // settings["BLOCK"],)
    return {"arguments": arguments, "grid": grid, "outputs": [], "before": partial.stride}


def instance(block: int, monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setattr("twill.bench.case._settings", lambda one: dict(one.constants))
    types = {"x": "*fp16", "partial": "*fp32"}
    return Instance(types, frozenset(), {"BLOCK": block}, {"num_warps": 4, "num_stages": None})


@pytest.fixture
def lineup(monkeypatch: pytest.MonkeyPatch) -> Field:
    """A kernel with blocks of 16, tried with blocks of 32 too, and as another kernel."""
    own = Bench("k", made, ({},))
    forms = (
        Form({"BLOCK": 32}, own, "k", instance(32, monkeypatch)),
        Form({"kernel": "other", "BLOCK": 8}, Bench("other", made, ({},)), "other", instance(8, monkeypatch)),
    )
    return Field(own, None, "k", instance(16, monkeypatch), forms)  # pyright: ignore


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What Triton was told to launch: kernel, grid, arguments, block, options."""
    found = list[tuple[Any, ...]]()

    def launch(
        kernel: Any, grid: Any, arguments: Any, one: Instance, options: Any, warmup: bool = False
    ) -> None:
        if not warmup:
            found.append((kernel, grid, arguments, one.constants["BLOCK"], dict(options)))

    monkeypatch.setattr("twill.extract.frontend.triton.launch", launch)
    monkeypatch.setattr(contenders, "_compile", lambda launches: [one(warmup=True) for one in launches])
    return found


def test_a_form_is_launched_with_its_blocks_on_the_same_arrays(
    lineup: Field, launches: list[tuple[Any, ...]]
) -> None:
    case = lineup.case({})
    lineup.by_triton(case, {"n": 64}, {"kernel": "other", "BLOCK": 8, "num_warps": 8, "num_stages": 3})()
    ((kernel, grid, arguments, block, options),) = launches
    assert (kernel, grid, block, options) == ("other", (8,), 8, {"num_warps": 8, "num_stages": 3})
    assert arguments["x"] is case.arguments["x"], "alike, and a GPU may have no room for both"
    assert arguments["partial"].shape == (8,), "of another size with other blocks"
    made = contenders._alike(lineup.forms[1], {"n": 64}, case)
    assert made.before is case.before, "nothing of the form's own case stays in memory"


def test_without_a_form_it_is_the_kernel_on_its_case(lineup: Field, launches: list[tuple[Any, ...]]) -> None:
    case = lineup.case({})
    lineup.by_triton(case, {}, {"num_stages": 2})()
    assert launches == [("k", (4,), case.arguments, 16, {"num_stages": 2})]


def test_the_fastest_of_all_forms_and_options_is_taken(
    lineup: Field, launches: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is left out; the time is that of what was launched."""

    def times(runs: Mapping[str, Any], rounds: int) -> Mapping[str, Any]:
        found = {}
        for name, run in runs.items():
            launches.clear()
            run()
            block, options = launches[0][3:]
            found[name] = spread([float(block) + options["num_stages"] - options["num_warps"]])
        return found

    def runs(run: Any) -> bool:
        launches.clear()
        run()
        return launches[0][3] != 8

    monkeypatch.setattr(contenders, "times", times)
    monkeypatch.setattr(contenders, "_runs", runs)
    assert lineup.tuned(lineup.case({}), {"n": 64}) == {"num_warps": 8, "num_stages": 2}
    monkeypatch.setattr(contenders, "_runs", lambda run: runs(run) or launches[0][4]["num_stages"] == 4)
    tuned = lineup.tuned(lineup.case({}), {"n": 64})
    assert tuned == {"kernel": "other", "BLOCK": 8, "num_warps": 8, "num_stages": 4}
    monkeypatch.setattr(contenders, "_runs", lambda run: False)
    assert lineup.tuned(lineup.case({}), {"n": 64}) is None
