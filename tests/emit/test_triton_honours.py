"""The schedule attributes of `--triton`, handed to the passes of the installed Triton: the compiled loop has
the stages and the order that they say."""

import importlib.util
import re
from dataclasses import replace

import pytest

from tests.emit.test_ttgir import FOLDER, Case, case
from tests.kernels.builds import numbers
from tests.kernels.programs import loops, program
from tests.targets.test_gluon import accepted, executed
from twill.emit.ttgir import annotate
from twill.extract.frontend.gluon import Compiled

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
INTERVAL = 1000


def compiled(made: Case, start: tuple[int, ...]) -> str:
    """TTGIR after all passes, of a loop with these start times."""
    from twill.extract.frontend.triton import finish

    handed = made._replace(solution=replace(made.solution, start=start, interval=INTERVAL))
    return finish(handed.text("pipeline"), "sm90", made.module.num_warps).ttgir


def parts(text: str) -> tuple[str, str]:
    """What stands before the loop, and its body."""
    before, _, rest = text.partition("scf.for")
    return before, rest.partition("scf.yield")[0]


@pytest.mark.parametrize("stage", [1, 3])
def test_loads_run_as_many_iterations_ahead_as_their_stage_says(stage: int) -> None:
    """The prologue starts the loads of that many iterations, into one slot more."""
    made = case(FOLDER / "gemm.sm90.ttgir")
    text = compiled(made, tuple(0 if node.kind == "load" else stage * INTERVAL for node in made.graph.nodes))
    before, body = parts(text)
    assert before.count("async_tma_copy_global_to_local") == 2 * stage
    assert body.count("async_tma_copy_global_to_local") == 2
    assert f"memdesc<{stage + 1}x128x64xf16" in text


@pytest.mark.parametrize("order", [("gated", "linear"), ("linear", "gated")])
def test_dots_are_in_the_order_of_their_clusters(order: tuple[str, str]) -> None:
    made = case(FOLDER / "dual_gemm.sm90.ttgir")
    starts = {f"dot.{name}": 2 * INTERVAL + 500 * place for place, name in enumerate(order)}
    start = tuple(starts.get(re.sub(r"_\d+$", "", node.id), 0) for node in made.graph.nodes)
    _, body = parts(compiled(made, start))
    found = re.findall(r"%(\w+?)_\d+ = ttng\.warp_group_dot ", body)
    assert tuple(found) == order


SCRATCH = 1 << 16
"""Bytes of global memory, more than the descriptors take that a kernel makes."""


@pytest.mark.parametrize("kernel", ["gemm", "dual_gemm", "fa_fwd", "fa_bwd"])
def test_what_triton_makes_of_a_schedule_is_right(kernel: str) -> None:
    """Loads run ahead into slots that MMAs have read; one load feeds two MMAs."""
    from twill.extract.frontend.triton import finish

    one, (scheduled,) = program(kernel), loops(kernel)[1]
    given = scheduled.loop, scheduled.graph, scheduled.problem, scheduled.solution
    made = finish(annotate(one.module, *given, ("pipeline",)), "sm90", one.module.num_warps)
    binary = Compiled(made.ttgir, made.ptx, made.shared_bytes, SCRATCH)
    accepted(one, executed(binary, one.function, numbers(kernel)))
