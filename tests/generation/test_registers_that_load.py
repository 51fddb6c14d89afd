"""Which registers are tried for the threads that load where ptxas spills."""

import pytest

from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.spills import Compiled, least_spilled
from twill.inputs import Inputs

SPILLED = ("72 bytes of registers are spilled, of 208 registers per thread: lower the limit",)
WORSE = ("428 bytes of registers are spilled, of 200 registers per thread: lower the limit",)


def test_far_more_registers_help_where_some_more_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas spills more with each step, and nothing with four."""
    inputs = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1)
    made = generate(inputs, GenerateOptions(time_limit=20, check=False))

    def loading(one: Generated) -> int:
        return max(group.registers for group in one.program.groups if group.only_moves)

    before, step = loading(made), made.loops[0].problem.limits.register_step

    def said(tried: Generated) -> tuple[str, ...]:
        more = loading(tried) - before
        return SPILLED if more == 0 else () if more >= 4 * step else WORSE

    monkeypatch.setattr("twill.generation.spills._warnings", said)
    found = least_spilled(Compiled(made, SPILLED))
    assert not found.said
    assert loading(found.made) >= before + 4 * step
