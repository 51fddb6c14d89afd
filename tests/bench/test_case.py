# pyright: basic
"""What a kernel's file says about measuring it."""

from typing import Any

import pytest

from twill.bench.case import TORCH, Bench, bench
from twill.bench.profile_target import Request, Runs, read
from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Instance

INSTANCE = Instance({"n": "i32"}, frozenset(), {"BLOCK": 64}, {})


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    if "torch" not in sys.modules:
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))


def entry(**members: Any) -> Bench:
    def make(settings: Any, n: int = 128) -> Any:
        return {"arguments": {"n": n}, "grid": (n // settings["BLOCK"],), "outputs": [], **members}

    return Bench("k", make, ({},))


def test_a_case_knows_constants_and_shape() -> None:
    assert entry().case(INSTANCE, {}).grid == (2,)
    assert entry().case(INSTANCE, {"n": 640}).grid == (10,)
    assert entry().defaults == {"n": 128}


@pytest.mark.parametrize(
    ("made", "shape", "complaint"),
    [
        (entry(), {"m": 1}, "has no 'm'"),
        (entry(refrence=None), {}, "'refrence'"),
        (entry(arguments={}), {}, "'n'"),
        (entry(arguments={"n": 1, "m": 2}), {}, "'m'"),
    ],
)
def test_cases_that_can_not_be(made: Bench, shape: dict[str, int], complaint: str) -> None:
    with pytest.raises(TwillError, match=complaint):
        made.case(INSTANCE, shape)


def test_the_table_of_a_file() -> None:
    def make(settings: Any) -> Any:
        return {}

    names = {
        "BENCH": {
            "k": {"case": make, "shapes": [{"n": 1}, {"n": 2}]},
            "m": {"case": make, "triton": [{"BLOCK": 32}, {"kernel": "k"}]},
            "bad": {"shapes": []},
        }
    }
    assert bench(names, "f.py", "k").shapes == ({"n": 1}, {"n": 2})
    assert bench(names, "f.py", "m").shapes == ({},)
    assert bench(names, "f.py", "m").triton == ({"BLOCK": 32}, {"kernel": "k"})
    for kernel, complaint in (("bad", "nothing else"), ("other", "does not say")):
        with pytest.raises(TwillError, match=complaint):
            bench(names, "f.py", kernel)


def test_every_float_has_a_name_in_pytorch() -> None:
    assert {"fp16", "bf16", "fp32", "fp8e4nv", "fp8e5"} <= set(TORCH)


def test_a_request_is_read_as_it_was_written() -> None:
    request = Request(
        "f.py:k", "sm90", {"BLOCK": 64}, "build", (Runs({"n": 1}, ("twill",), {"num_warps": 8}),)
    )
    assert read(request.text()).text() == request.text()


def test_work_around_a_kernel_counts_as_its_time() -> None:
    ran = list[str]()
    case = entry(before=lambda: ran.append("before"), after=lambda: ran.append("after")).case(INSTANCE, {})
    case.whole(lambda: ran.append("kernel"))()
    assert ran == ["before", "kernel", "after"]
    entry().case(INSTANCE, {}).whole(lambda: ran.append("alone"))()
    assert ran[3:] == ["alone"]
