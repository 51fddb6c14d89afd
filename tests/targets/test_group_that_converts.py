"""A group that does nothing but change the layout of a tile between two other groups."""

from dataclasses import replace

from twill.files import load, read_schedule
from twill.generation.loop_nest import program
from twill.inputs import Inputs, cases
from twill.targets import EXACT_LAYOUTS, target

SCHEDULE = "tests/kernels/schedules/queries_16_apart.for.0.json"


def test_it_reads_the_tile_from_its_slot_as_it_was_computed() -> None:
    found = cases(
        Inputs("tests/kernels/ttgir/queries_16.sm90.ttgir", arch="sm90", exact_layouts=EXACT_LAYOUTS)
    )
    kept = read_schedule(load(SCHEDULE), SCHEDULE).result
    made, loops = program(found, lambda problem: replace(kept, problem=problem))
    (converting,) = (one.group("convert.acc_35") for one in loops)
    assert loops[0].solution.group.count(converting) == 1
    source = target("sm90").source(made)
    at = source.index("store convert.acc_35 to acc_35")
    stored = source[at : source.index("producer_commit", at)]
    assert "channel_acc_28.slot" in stored
    assert "channel_acc_35.slot" in stored
