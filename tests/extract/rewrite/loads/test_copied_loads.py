"""A loaded tile that a loop hands on is copied first, by a group that computes: the same values."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.single_iteration import in_loops
from twill.extract.rewrite.loads.copied_loads import copied_loads
from twill.extract.rewrite.mma.fresh_accumulators import fresh
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.generation.loop_nest import TogetherError
from twill.inputs import Inputs
from twill.ir.loop import Module
from twill.simulate.compare import arguments, error
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

ECHOED = Path("tests/kernels/ttgir/echoed.sm90.ttgir")


def as_it_is(made: Module) -> Module:
    return made


def module(path: Path) -> Module:
    return in_loops(fresh(read(path.read_text(encoding="utf-8"), str(path))))


def test_values_and_lines_are_the_same() -> None:
    before, found = module(ECHOED), list[Memory]()
    after = copied_loads(before)
    for made in (before, after):
        values, memory = arguments(made.functions[0], {})
        interpret(made.functions[0], values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    for name in found[0].arrays:
        assert error(found[0].arrays[name].astype(float), found[1].arrays[name].astype(float)) == 0.0
    assert before.text.count("\n") == after.text.count("\n")


def test_only_what_was_loaded_is_copied() -> None:
    (loop,) = loops(copied_loads(module(ECHOED)))
    names = [one.yielded.name for one in loop.carried]
    assert sum(name.startswith("%twill_copy") for name in names) == 1
    assert len(names) > 1


def test_a_module_whose_loops_hand_on_no_loaded_tile_is_unchanged() -> None:
    made = module(Path("tests/kernels/ttgir/reread.sm90.ttgir"))
    assert copied_loads(made) is made


def test_without_the_copy_no_partition_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group of loads would have to compute."""
    kernel = Inputs(str(ECHOED), arch="sm90", subtile=1)
    options = GenerateOptions(time_limit=5.0, check=False)
    assert generate(kernel, options).results
    monkeypatch.setattr("twill.extract.rewrite.steps.copied_loads", as_it_is)
    with pytest.raises(TogetherError, match=r"infeasible"):
        generate(replace(kernel, spills=2), options)
