"""An MMA that adds to what its buffer of tensor memory was given begins anew, and the sum follows: the same
values, the same lines; other uses of the buffer leave it as it is."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.fresh_accumulators import fresh
from twill.ir.loop import Module
from twill.ops.table import is_mma, role
from twill.simulate.compare import arguments, error
from twill.simulate.interpret import interpret

UPDATES = {"straight": (2, 0), "guarded": (1, 1), "skipping": (2, 1)}
"""How many stores of a kernel go, and how many sums come in their place."""
STORE = "%acc_9 = ttng.tmem_store %acc_3, %acc_7[%acc_8], %true"


def module(kernel: str, old: str = "", new: str = "") -> Module:
    path = Path("tests/kernels/ttgir") / f"{kernel}.sm100.ttgir"
    text = path.read_text(encoding="utf-8")
    assert old in text
    return read(text.replace(old, new, 1) if old else text, str(path))


def count(made: Module, name: str) -> int:
    return sum(name in (op.name, role(op)) for op in made.functions[0].walk())


@pytest.mark.parametrize(("kernel", "changes"), UPDATES.items())
def test_stores_go_and_sums_come(kernel: str, changes: tuple[int, int]) -> None:
    before, after = module(kernel), fresh(module(kernel))
    stores, sums = changes
    assert count(before, "tensor_memory_store") - count(after, "tensor_memory_store") == stores
    assert count(after, "arith.addf") - count(before, "arith.addf") == sums
    assert before.text.count("\n") == after.text.count("\n")
    lines = [[op.location.line for op in one.functions[0].walk() if is_mma(op)] for one in (before, after)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("kernel", UPDATES)
@pytest.mark.parametrize("seed", range(2))
def test_values_are_the_same(kernel: str, seed: int) -> None:
    found = list[np.ndarray]()
    for one in (module(kernel), fresh(module(kernel))):
        function = one.functions[0]
        names = {arg.name.lstrip("%") for arg in function.args}
        numbers = {name: value for name, value in {"M": 128, "N": 128, "K": 192}.items() if name in names}
        values, memory = arguments(function, numbers, seed)
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        found.append(memory.arrays["c" if kernel == "guarded" else "o"].astype(float))
    assert np.any(found[0])
    assert error(found[0], found[1]) < 1e-3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STORE, STORE.replace("%true", "%20")),
        ("%acc_7[%acc_9], %true, %true", "%acc_7[%acc_9], %true, %20"),
        ("ttng.tmem_load %acc_7[%acc_10]", "ttng.tmem_load %acc_7[%acc_9]"),
        ("ttng.tmem_load %acc_7[%acc_10]", "ttng.tmem_load %acc_7[%acc_8]"),
    ],
    ids=["conditional store", "conditional MMA", "load beside the MMA", "load of what was there"],
)
def test_other_updates_stay(old: str, new: str) -> None:
    made = module("guarded", old, new)
    assert fresh(made) is made
