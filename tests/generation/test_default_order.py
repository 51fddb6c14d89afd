"""The schedule that a default search of two tiles of backward attention ends with is as good as the one that
is kept because it measures best (reports/h200.md)."""

import pytest

from tests.kernels.programs import measured
from twill.generation.attempts import AHEAD
from twill.generation.candidates import candidates
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.simulate.predict import intervals
from twill.targets import target
from twill.warp.lower import lower


def test_two_tiles_of_backward_attention_alternate() -> None:
    inputs = Inputs("examples/ttgir/fa_bwd_subtiled.sm90.ttgir", arch="sm90", persistent=False)
    (made, *_) = candidates(inputs, GenerateOptions(), lambda name, event: None)
    (one,) = made.loops
    assert any(note.startswith(AHEAD) for note in made.program.notes)
    half = one.solution.interval // 2
    pairs = (("dot.weights_17", "dot.weights_36"), ("reduce.dq_desc", "reduce.dq_desc.2"))
    assert [one.start(b) - one.start(a) for a, b in pairs] == [half, half]
    module, kept = measured("fa_bwd_subtiled")
    (best,) = intervals(lower(module, kept, target("sm90")), kept).values()
    (found,) = intervals(made.program, made.loops).values()
    assert found == pytest.approx(best, rel=0.01)
