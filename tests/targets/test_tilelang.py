"""Schedules for TileLang: what they say, executed against a stand-in for `tilelang.language`, keeps TileLang's
rules."""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from tests.kernels.programs import loops, program
from twill.diagnostics import TwillError
from twill.targets.tilelang import schedule


class Recorded(dict[str, Any]):
    """A call of the language: its arguments by position and name."""


def call(name: str) -> Any:
    def recorded(*args: Any, **named: Any) -> Recorded:
        return Recorded(call=name, args=args, **named)

    return recorded


class WSScope:
    """Makes a record, and has the name of the outermost scope."""

    ROOT = "root"

    def __new__(cls, *args: Any) -> Any:
        return Recorded(args=args)


def language() -> ModuleType:
    """The names that a schedule uses, as in TileLang's documentation."""
    made = ModuleType("tilelang.language")
    words = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")
    sync = type("WSSync", (), {word: staticmethod(call(word)) for word in words})
    for name, value in (("WSSync", sync), ("WSScope", WSScope)):
        setattr(made, name, value)
    for name in ("WSSchedule", "WSRole", "WSPipeline"):
        setattr(made, name, call(name))
    return made


def executed(kernel: str, monkeypatch: pytest.MonkeyPatch, buffers: Mapping[str, str]) -> Recorded:
    monkeypatch.setitem(sys.modules, "tilelang", ModuleType("tilelang"))
    monkeypatch.setitem(sys.modules, "tilelang.language", language())
    names: dict[str, Any] = {}
    exec(schedule(program(kernel), loops(kernel)[1]), names)
    return names["schedule"](buffers, after={"group_1": ["store"]})


@pytest.mark.parametrize(
    ("kernel", "tensors"), [("gemm", "xy"), ("dual_gemm", "xyz"), ("gemm_reduction", "xy")]
)
def test_every_operation_of_the_loop_is_placed_once_inside_its_spans(
    kernel: str, tensors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = program(kernel)
    (channel,) = one.channels
    made = executed(kernel, monkeypatch, {tensor.name: tensor.name for tensor in channel.tensors})
    assert made["num_warps"] == one.launch.threads // 32
    ranges = [(role["warps_lo"], role["warps_hi"], role["max_nreg"]) for role in made["roles"]]
    assert ranges == [(g.first_warp, g.first_warp + g.warps, g.registers) for g in one.groups]
    assert made["pipelines"][0]["args"][0] == channel.id
    assert made["pipelines"][0]["depth"] == channel.depth
    bodies = made["scopes"][0]["args"][1]
    placed = [entry for body in bodies.values() for entry in body if isinstance(entry, str)]
    nodes = [node.id for node in loops(kernel)[1][0].graph.nodes]
    assert sorted(placed) == sorted(nodes)
    for body in bodies.values():
        words = [entry["call"] if isinstance(entry, Recorded) else "op" for entry in body]
        assert words[0] in ("producer_acquire", "consumer_wait")
        assert {"producer_acquire": "producer_commit", "consumer_wait": "consumer_release"}[words[0]] in words
    assert made["scopes"][-1]["args"] == ("root", {"group_0": ["for_0"], "group_1": ["for_0", "store"]})


@pytest.mark.parametrize("kernel", ["fa_fwd", "gemm_persistent", "fa_fwd_subtiled"])
def test_what_tilelang_can_not_express_is_refused_with_a_line(kernel: str) -> None:
    with pytest.raises(TwillError, match="WSSchedule") as refused:
        schedule(program(kernel), loops(kernel)[1])
    assert refused.value.location
    assert refused.value.help
