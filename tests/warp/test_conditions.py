"""Tiles of conditions: what loads and arithmetic share, and what passes between groups."""

from pathlib import Path

from tests.simulate.test_values import grid
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.loop import Scalar
from twill.ir.statements import ProducerLoad, walk
from twill.simulate.compare import compare
from twill.warp.slot_tensors import tile_bytes

SELECTED = "arith.select %seen, %s_81, %cst_6 : tensor<64x64xi1, #linear>, tensor<64x64xf32, #linear>"
BEHIND = "arith.select %seen_62, %s_82, %late : tensor<64x64xi1, #blocked>, tensor<64x64xf32, #blocked> loc(#loc31)"
CONVERTED = "%18 = ttg.convert_layout %15 : tensor<64x64xf32, #linear>"


def shared(text: str) -> str:
    """The kernel whose scores are selected in the layout of the loads, by the loads' own conditions."""
    assert text.count(SELECTED) == 1
    assert text.count(CONVERTED) == 1
    first = "ttg.convert_layout %s_81 : tensor<64x64xf32, #linear> -> tensor<64x64xf32, #blocked> loc(#loc32)"
    late = "arith.constant dense<-1.000000e+00> : tensor<64x64xf32, #blocked> loc(#loc32)"
    lines = list[str]()
    for line in text.replace(CONVERTED, CONVERTED.replace("#linear", "#blocked")).splitlines():
        if SELECTED in line:
            lines += [f"      %s_82 = {first}", f"      %late = {late}", f"      %15 = {BEHIND}"]
        else:
            lines.append(line)
    return "\n".join(lines)


def test_a_load_rematerializes_conditions_that_another_group_computes_too(tmp_path: Path) -> None:
    path = tmp_path / "windowed.ttgir"
    path.write_text(shared(Path("tests/kernels/ttgir/windowed.sm100.ttgir").read_text()))
    made = generate(Inputs(str(path), arch="sm100"), GenerateOptions(time_limit=5, check=False)).program
    loads = [one for group in made.groups for one in walk(group.body) if isinstance(one, ProducerLoad)]
    assert {channel.id for channel in made.channels} >= {load.channel for load in loads}
    assert not [channel.id for channel in made.channels if channel.id.startswith("seen")]
    found = compare(made, {"N": 200}, grid(0, 0, (1, 1)))
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


def test_a_slot_has_a_byte_for_each_truth_value() -> None:
    assert tile_bytes((64, 64), Scalar("i1")) == 64 * 64
