"""Machine files: those that come with Twill, and mistakes in others."""

import re
from dataclasses import replace

import pytest

from twill.costs import machine as machines
from twill.costs.charge import charge
from twill.diagnostics import TwillError
from twill.ir.graph import Tile, Work
from twill.ops.table import TABLE, cost_name

TOY = (machines.folder() / "toy.toml").read_text(encoding="utf-8")

FREE = {"view", "scalar", "branch"}
"""Kinds that no cost table is asked about."""

BLACKWELL = {
    "ttng.tc_gen5_mma",
    "ttng.tc_gen5_mma_scaled",
    "ttng.tmem_load",
    "ttng.tmem_store",
    "ttng.tmem_alloc",
    "ttng.tmem_copy",
}


@pytest.mark.parametrize("name", machines.available())
def test_every_machine_has_its_name_and_its_sources(name: str) -> None:
    found = machines.load(name)
    assert found.name == name
    assert all(cost.source for cost in found.costs.values())
    assert set(found.sources) == {"limits", *(f"units.{unit}" for unit in found.units)}


@pytest.mark.parametrize(("name", "missing"), [("h200", BLACKWELL), ("b200", {"ttng.warp_group_dot"})])
def test_gpus_have_a_cost_for_every_operation_that_is_scheduled(name: str, missing: set[str]) -> None:
    found = machines.load(name)
    without = {op for op, row in TABLE.items() if row.kind not in FREE and found.cost(cost_name(op)) is None}
    assert without <= missing | {"tt.dot_scaled"}, (
        "which Triton has turned into others by the time a loop is scheduled"
    )


@pytest.mark.parametrize(("arch", "name"), [("sm90", "h200"), ("sm_100a", "b200"), ("cuda:90", "h200")])
def test_an_architecture_names_a_machine(arch: str, name: str) -> None:
    assert machines.default_machine(arch).name == name


def test_unknown_machines_and_architectures_are_refused_with_what_there_is() -> None:
    with pytest.raises(TwillError) as error:
        machines.load("h900")
    assert "h200" in str(error.value)
    with pytest.raises(TwillError, match="sm70"):
        machines.default_machine("sm70")


def test_a_base_is_overridden_table_by_table() -> None:
    text = 'schema = "twill.machine/1"\nbase = "h200"\nname = "mine"\n[handover]\nbarrier = 7\n'
    mine, base = machines.parse(text, "mine.toml"), machines.load("h200")
    assert (mine.name, mine.handover.barrier) == ("mine", 7)
    assert mine.handover.base == base.handover.base
    assert mine.costs == base.costs


def mistakes(text: str) -> str:
    with pytest.raises(TwillError) as error:
        machines.parse(text, "m.toml")
    return str(error.value)


def place(text: str, part: str) -> int:
    """The line on which `part` stands."""
    return text[: text.index(part)].count("\n") + 1


def test_all_mistakes_are_listed_each_at_its_place() -> None:
    text = (
        TOY.replace("groups = 4", 'groups = "4"')
        .replace("minimum = 1", "minimun = 1")
        .replace("rate = { SFU", "rate = { SFX")
    )
    found = mistakes(text)
    assert f"m.toml:{place(text, 'groups')}:1: error: 'groups' must be an integer" in found
    assert f"m.toml:{place(text, 'minimun')}:1: error: unknown key 'minimun'" in found
    assert "'minimum' is missing in [stream]" in found
    text = (
        TOY.replace("rate = { SFU", "rate = { SFX")
        .replace("warps = 16", "warps = -1")
        .replace("issue = 1\n", "issue = 1\nwarps = 3\n")
    )
    found = mistakes(text)
    assert f"m.toml:{place(text, 'SFX')}:10: error: no unit 'SFX'" in found
    assert f"m.toml:{place(text, 'warps = -1')}:1: error: must not be negative" in found
    assert f"m.toml:{place(text, 'warps = 3')}:1: error: must be 1, 4 or 8" in found


def test_mistakes_about_residency_are_found_too() -> None:
    text = 'schema = "twill.machine/1"\nbase = "h200"\nname = "mine"\n[residency]\nused = 1.5\nslots = -1\n'
    found = mistakes(text)
    assert "m.toml:5:1: error: must be 1 or less" in found
    assert "m.toml:6:1: error: must not be negative" in found


def test_mistakes_about_contention_are_found_too() -> None:
    text = (
        'schema = "twill.machine/1"\nbase = "h200"\nname = "mine"\n[contention]\nunit = "tensr"\nreductions ='
        " 0.5\nslower = { fpu = 2.0 }\n"
    )
    found = mistakes(text)
    assert "m.toml:5:1: error: no unit 'tensr'" in found
    assert "m.toml:6:1: error: must be a finite number, 1 or more" in found
    assert "no unit 'fpu'" in found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('schema = "twill.machine/1"', 'schema = "twill.machine/9"', "schema must be"),
        ("[units.SFU]", "[units.SFU]\ncapacity = 0", "capacity must be at least 1"),
        ("TC = 1_000_000_000", "TC = 0", "a rate must be a finite number above 0"),
        ("TC = 1_000_000_000", "TC = nan", "a rate must be a finite number above 0"),
        ('ops = ["math.exp2"]', 'ops = ["math.exp2", "arith.addf"]', "has a cost already"),
        ("[units.TC]", "[units.TC", "m.toml:7"),
        ('name = "toy"', 'name = "toy"\nbase = "nothing"', "no machine 'nothing' to base this one on"),
        ('arch = "toy"', 'arch = ["toy"]', "'arch' must be a string"),
        ('ops = ["math.exp2"]', 'ops = "math.exp2"', "'ops' must be a list"),
    ],
)
def test_one_mistake(old: str, new: str, message: str) -> None:
    assert old in TOY
    assert message in mistakes(TOY.replace(old, new))


def test_an_operation_costs_as_another_one_unless_it_has_a_cost_of_its_own() -> None:
    tile = Tile((128, 128), "f32", 32, "registers", 128, 128 * 128)
    work = Work("math.asin", "elementwise", (tile,), (tile,))
    base = machines.load("h200")
    assert charge(work, base).units == charge(replace(work, op="math.erf"), base).units
    own = '[costs.mine]\nops = ["math.asin"]\nrate = { alu = 1 }\nlatency = 1\nsource = "estimate"\n'
    mine = machines.parse(f'schema = "twill.machine/1"\nbase = "h200"\nname = "mine"\n{own}', "mine.toml")
    assert charge(work, mine).units["alu"] == 128 * 128


def test_every_estimate_of_the_b200_states_its_uncertainty() -> None:
    """No B200 was measured."""
    made = machines.load("b200")
    sources = [cost.source for cost in made.costs.values()] + list(made.sources.values())
    estimates = [source for source in sources if "estimate" in source]
    assert len(estimates) > 20
    bounded = re.compile(r"within a factor|\d to \d|up to|perhaps \d")
    assert not [source for source in estimates if not bounded.search(source)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('unit = "none"', "no unit 'none'"),
        ("lanes = 0", "must be 1 or more"),
        ("wait = -1", "must not be negative"),
        ("parity = 1", "unknown key 'parity'"),
    ],
)
def test_mistakes_in_what_controls_loops_are_found(line: str, message: str) -> None:
    given = {"unit": '"alu"', "lanes": 64, "loop": 2, "wait": 2, "slot": 4, "update": 2, "source": '"x"'}
    key, value = line.split(" = ")
    table = "".join(f"{name} = {one}\n" for name, one in (given | {key: value}).items())
    with pytest.raises(TwillError, match=message):
        machines.parse(f'schema = "twill.machine/1"\nbase = "b200"\n[control]\n{table}', "mine.toml")
