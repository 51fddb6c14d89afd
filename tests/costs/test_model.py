"""Costs: shapes and element types whose cost is known, and the problems of the examples."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extract.dependence.test_dependence import DOT, LOAD, TOKEN, B, D, T, loop
from twill.costs.charge import charge
from twill.costs.listing import listing
from twill.costs.machine import default_machine, load, parse
from twill.costs.model import Overrides, costed, costs, extremes
from twill.diagnostics import Location, TwillError
from twill.extract.dependence.build import graph
from twill.extract.dependence.loops import loops
from twill.extract.dependence.simplify import ALL_RULES
from twill.extract.reader.ttgir import read
from twill.inputs import Inputs, cases
from twill.ir.graph import Exchange, Graph, Place, Tile, Work
from twill.ir.machine import Machine
from twill.ir.problem import Problem
from twill.modulo.bounds import bounds

EXAMPLES = Path(__file__).parents[2] / "examples" / "ttgir"
NAMES = sorted(path.name.removesuffix(".ttgir") for path in EXAMPLES.glob("*.ttgir"))


def example(name: str, rules: tuple[str, ...] = ALL_RULES) -> Graph:
    """The graph of the last schedulable loop of an example."""
    path = EXAMPLES / f"{name}.ttgir"
    module = read(path.read_text(encoding="utf-8"), path.name)
    return graph(module, [found for found in loops(module) if found.schedulable][-1], rules)


def machine_of(name: str) -> Machine:
    return default_machine(name.rpartition(".")[2])


def problem(
    name: str, shared: int | None = None, prefetch: int | None = None, contention: bool = True
) -> Problem:
    return costed(
        example(name), machine_of(name), Overrides(shared=shared, prefetch=prefetch, contention=contention)
    )


def tile(
    *shape: int,
    dtype: str = "f32",
    bits: int = 32,
    place: Place = "registers",
    registers: int = 64,
    held: int = 0,
) -> Tile:
    size = 1
    for extent in shape:
        size *= extent
    return Tile(shape, dtype, bits, place, registers, held or size)


def product(machine: str, op: str, m: int, n: int, k: int, dtype: str = "f16", bits: int = 16) -> int:
    """Cycles of the tensor core."""
    a, b = (
        tile(m, k, dtype=dtype, bits=bits, place="shared"),
        tile(k, n, dtype=dtype, bits=bits, place="shared"),
    )
    return charge(Work(op, "mma", (a, b), (tile(m, n),), mnk=(m, n, k)), load(machine)).units["tensor"]


def test_matrix_products_take_the_cycles_of_the_data_sheets() -> None:
    hopper, blackwell = "ttng.warp_group_dot", "ttng.tc_gen5_mma"
    assert product("h200", hopper, 128, 128, 128) == 1024
    assert product("b200", blackwell, 128, 128, 128) == 512
    assert product("h200", hopper, 128, 128, 128, "f8E4M3FN", 8) == 512
    assert product("h200", hopper, 128, 128, 128, "f32", 32) == 2048
    assert product("h200", hopper, 128, 128, 128, "bf16") == 1024
    assert product("b200", blackwell, 64, 128, 128) == 512, "64 rows take as long as 128"


def test_operands_in_shared_memory_are_read_through_its_bandwidth() -> None:
    a, b = (
        tile(128, 128, dtype="f16", bits=16, place="shared"),
        tile(128, 128, dtype="f16", bits=16, place="shared"),
    )
    work = Work("ttng.warp_group_dot", "mma", (a, b), (tile(128, 128),), mnk=(128, 128, 128))
    assert charge(work, load("h200")).units["smem"] == (32768 + 2 * 32768) // 128, (
        "A once, B by each of two warpgroups"
    )
    registers = replace(work, inputs=(replace(a, place="registers"), b))
    assert charge(registers, load("h200")).units["smem"] == 2 * 32768 // 128


def test_replicated_rows_cost_what_is_held() -> None:
    row = tile(64, registers=2, held=256)
    assert charge(Work("math.exp2", "elementwise", (row,), (row,)), load("h200")).units["sfu"] == 16


def test_half_precision_adds_twice_as_fast() -> None:
    half = tile(64, 128, dtype="f16", bits=16, registers=32)
    assert charge(Work("arith.addf", "elementwise", (half,), (half,)), load("h200")).units["fma"] == 32


def test_a_reduction_pays_for_its_operation_and_its_shuffles() -> None:
    rows, result = tile(64, 128), tile(64, registers=2, held=256)
    work = Work(
        "tt.reduce", "reduce", (rows,), (result,), exchange=Exchange(32, 2, 0), combine=("arith.maxnumf",)
    )
    made = charge(work, load("h200"))
    assert (made.units["alu"], made.units["smem"]) == (128 + 2 * 256 // 64, 16), (
        "a maximum behind each shuffle"
    )
    assert made.latency > made.issue == 144
    across = charge(replace(work, exchange=Exchange(32, 2, 1)), load("h200"))
    assert across.latency == made.latency + load("h200").handover.barrier
    assert across.units["alu"] == made.units["alu"] + 2 * 256 // 64, (
        "a maximum for what each of two warps left"
    )


def test_a_chunk_is_read_before_lanes_exchange_what_they_have() -> None:
    """A tile that arrives in chunks and is summed over the rows of a column: the exchanges between lanes, one
    for each element, follow the last chunk, so they let no thread begin earlier."""
    (found,) = cases(Inputs("tests/kernels/ttgir/overwritten.sm100.ttgir", arch="sm100"))
    assert found.graph
    assert found.machine
    made = {cost.node.id: cost.charge for cost in costs(found.graph, found.machine)}
    total, arriving = made["reduce_sum.total_23"], made["get.s_21"]
    assert (total.units["fma"], total.finishing) == (32 + 4 * 32 + 4 * 32, 4 * 32 + 4 * 32)
    (edge,) = (e for e in found.problem.edges if (e.src, e.dst) == ("get.s_21", "reduce_sum.total_23"))
    assert edge.delay == arriving.latency - 32 + found.machine.stream.slack


def test_an_operation_without_a_cost_names_the_table_to_add() -> None:
    toy = load("toy")
    work = Work("math.erf", "elementwise", (tile(64),), (tile(64),), location=Location("k.ttgir", 7, 11))
    with pytest.raises(
        TwillError, match=r"k\.ttgir:7:11: error: no cost for math\.erf on machine 'toy'"
    ) as error:
        charge(work, toy)
    assert 'ops = ["math.erf"]' in (error.value.help or "")


def test_a_scan_pays_for_what_triton_makes_of_it() -> None:
    """In PTX for sm_90, 4 elements a thread and row, 32 threads a row: 11 additions, 8 selections, 6 shuffles
    for each row and thread."""
    rows, machine = tile(128, 128), load("h200")
    work = Work("tt.scan", "scan", (rows,), (rows,), exchange=Exchange(4, 5, 0), combine=("arith.addf",))
    parts, made = 128 * 128 // 4, charge(work, machine)
    assert (made.units["fma"], made.units["alu"], made.units["smem"]) == (
        11 * parts // 128,
        8 * parts // 64,
        6 * parts // 32,
    )
    alone = charge(replace(work, exchange=Exchange(128, 0, 0)), machine)
    assert (alone.units["fma"], alone.units["smem"]) == (
        127,
        0,
    ), "a thread that holds a row joins its elements once"
    assert "alu" not in alone.units
    across = charge(replace(work, exchange=Exchange(4, 5, 1)), machine)
    assert across.units["fma"] == made.units["fma"] + 128 * 128 // 128
    assert across.latency >= made.latency + machine.handover.barrier


def test_a_running_sum_is_not_taken_for_a_row_sum() -> None:
    """Rule `partial` leaves the exchange of a row's sum to the end of the loop; of a running sum every part
    is wanted."""
    body = (
        '%c = "tt.scan"(%d) <{axis = 1 : i32, reverse = false}> ({\n^bb0(%a: f32, %b: f32):\n%s = arith.addf'
        " %a, %b : f32\n"
    )
    body += f"tt.scan.return %s : f32\n}}) : ({T}) -> {T}\n%t = arith.addf %total, %c : {T}\n"
    (node,) = [
        node for node in loop(LOAD + DOT + body, "%total = %zero", "%t", T).nodes if node.kind == "scan"
    ]
    assert node.id == "scan_sum.c"
    assert not node.partial
    assert node.work[0].exchange is not None
    assert node.work[0].exchange.lanes == 2


@pytest.mark.parametrize(
    ("lhs", "rhs", "cycles"),
    [("e4m3", "e5m2", 32), ("e2m1", "e2m1", 16), ("e2m1", "e4m3", 32), ("e4m3", "e2m1", 32)],
)
def test_block_scaled_products_take_the_cycles_of_the_wider_operand(lhs: str, rhs: str, cycles: int) -> None:
    """128 x 64 x 32, two elements of e2m1 in a byte: fp8 at twice, fp4 at four times the rate of fp16."""
    depth = {"e4m3": 32, "e5m2": 32, "e2m1": 16}
    a, b = (
        f"!ttg.memdesc<128x{depth[lhs]}xi8, #shared, #smem>",
        f"!ttg.memdesc<{depth[rhs]}x64xi8, #shared, #smem>",
    )
    scales = "!ttg.memdesc<128x1xi8, #ttng.tensor_memory_scales_encoding<>, #ttng.tensor_memory>"
    before = (
        f"%a = ttg.local_alloc : () -> {a}\n%b = ttg.local_alloc : () -> {b}\n%x0 = ttng.tmem_alloc : () ->"
        f" {scales}\n"
    )
    before += f"%s, %s1 = ttng.tmem_alloc : () -> ({D}, {TOKEN})\n"
    operands = f"%a, %b, %s[%t], %x0, %x0, %true, %true lhs = {lhs} rhs = {rhs}"
    body = f"%u = ttng.tc_gen5_mma_scaled {operands} : {a}, {b}, {D}, {scales}, {scales}\n"
    (node,) = [node for node in loop(body, "%t = %s1", "%u", TOKEN, before).nodes if node.kind == "mma"]
    assert charge(node.work[0], load("b200")).units["tensor"] == cycles


def test_four_bit_floats_beside_eight_bit_ones_take_a_byte_each_in_shared_memory() -> None:
    load8 = "tt.descriptor_load %desc[%i, %c0] : !tt.tensordesc<64x64xf16, #shared> -> tensor"
    wide, narrow = "tensor<64x64xi8, #blocked>", "tensor<64x32xi8, #blocked>"
    padded = (
        "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 8, fp4Padded ="
        " true}>"
    )
    a, b, turned = (
        f"!ttg.memdesc<{form}xi8, {layout}, #smem>"
        for form, layout in (("64x64", "#shared"), ("64x32", padded), ("32x64", padded))
    )
    scales = "!ttg.memdesc<64x2xi8, #ttng.tensor_memory_scales_encoding<>, #ttng.tensor_memory>"
    before = f"%x0 = ttng.tmem_alloc : () -> {scales}\n%s, %s1 = ttng.tmem_alloc : () -> ({D}, {TOKEN})\n"
    body = f"%a0 = {load8}<64x64xi8, #blocked>\n%a = ttg.local_alloc %a0 : ({wide}) -> {a}\n"
    body += f"%b0 = {load8}<64x32xi8, #blocked>\n%b = ttg.local_alloc %b0 : ({narrow}) -> {b}\n"
    body += f"%bt = ttg.memdesc_trans %b {{order = array<i32: 1, 0>}} : {b} -> {turned}\n"
    operands = "%a, %bt, %s[%t], %x0, %x0, %true, %true lhs = e4m3 rhs = e2m1"
    body += f"%u = ttng.tc_gen5_mma_scaled {operands} : {a}, {turned}, {D}, {scales}, {scales}\n"
    found = loop(body, "%t = %s1", "%u", TOKEN, before)
    assert {value.id: value.tile.bytes for value in found.values if value.tile.place == "shared"} == {
        "load.a0": 4096,
        "load.b0": 4096,
    }
    (node,) = [node for node in found.nodes if node.kind == "mma"]
    assert charge(node.work[0], load("b200")).units["tensor"] == 128 * 64 * 64 // 8192, "at the rate of fp8"


def test_four_bit_floats_are_widened_by_logic() -> None:
    packed, wide = tile(64, 64, dtype="i8", bits=8), tile(64, 128, dtype="bf16", bits=16)
    made = charge(Work("ttg.fp4_to_fp", "elementwise", (packed,), (wide,)), load("h200"))
    assert made.units["alu"] == ceil(64 * 128 / 43)


@pytest.mark.parametrize("machine", ["h200", "b200"])
def test_what_no_machine_prices_names_the_table_to_add(machine: str) -> None:
    work = Work("tt.dot_scaled", "mma", (tile(64, 64), tile(64, 64)), (tile(64, 64),), mnk=(64, 64, 64))
    with pytest.raises(TwillError, match=r"no cost for tt\.dot_scaled") as error:
        charge(work, load(machine))
    assert 'ops = ["tt.dot_scaled"]' in (error.value.help or "")
    assert f"{machine}.toml" in (error.value.help or "")


def test_an_element_type_without_a_rate_names_the_entry_to_add() -> None:
    with pytest.raises(TwillError, match=r"no rate of ttng\.warp_group_dot for f64") as error:
        product("h200", "ttng.warp_group_dot", 64, 64, 64, "f64", 64)
    assert "rate.tensor` of [costs.wgmma]" in (error.value.help or "")


def test_the_running_example_of_the_paper() -> None:
    """Figure 1: S = gemm, P = exp, O += gemm, a cycle each on two units; S to P to O to the next O."""
    softmax = f"%e = math.exp2 %d : {T}\n%h = arith.truncf %e : {T} to tensor<64x64xf16, #mma>\n"
    operand = "tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>"
    convert = f"%g = ttg.convert_layout %h : tensor<64x64xf16, #mma> -> {operand}\n"
    update = f"%o = ttng.warp_group_dot %g, %k, %acc {{inputPrecision = 0 : i32}} : {operand} * {B} -> {T}\n"
    found = costed(loop(LOAD + DOT + softmax + convert + update, "%acc = %zero", "%o", T), load("toy"))
    work = {
        op.id: [(r.unit, r.cycles) for r in op.reservations] for op in found.operations if op.reservations
    }
    assert work == {"dot.d": [("TC", 1)], "exp2.e": [("SFU", 1)], "dot.o": [("TC", 1)]}
    assert {(e.src, e.dst): (e.delay, e.distance) for e in found.edges if e.src != "load.k0"} == {
        ("dot.d", "exp2.e"): (1, 0),
        ("exp2.e", "trunc.h"): (1, 0),
        ("trunc.h", "dot.o"): (0, 0),
        ("dot.o", "dot.o"): (1, 1),
    }
    assert bounds(found).value == 2


# --- problems ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_a_problem(name: str) -> None:
    found = problem(name)
    assert all(op.variable == (op.name in ("tt.load", "tt.descriptor_load")) for op in found.operations)
    assert all(edge.crossing >= edge.delay >= 0 for edge in found.edges)
    assert bounds(found).value > 1
    assert len(costs(example(name), machine_of(name))) == len(found.operations)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(NAMES), rules=st.sets(st.sampled_from(ALL_RULES)))
def test_every_choice_of_rules_can_be_priced(name: str, rules: set[str]) -> None:
    found = costed(example(name, tuple(rule for rule in ALL_RULES if rule in rules)), machine_of(name))
    names = {op.id for op in found.operations}
    assert all(
        v.src in names and {u.op for u in v.uses} <= names and min((u.hold for u in v.uses), default=0) >= 0
        for v in found.values
    )
    assert len({v.id for v in found.values}) == len(found.values)


@pytest.mark.parametrize(
    ("name", "unit", "cycles"),
    [
        ("fa_fwd_subtiled.sm90", "tensor", 2048),
        ("fa_fwd_subtiled.sm90", "sfu", 1056),
        ("fa_fwd_subtiled.sm100", "sfu", 2064),
        ("fa_fwd_subtiled.sm100", "tensor", 2048),
        ("fa_bwd.sm90", "tensor", 2560),
        ("fa_bwd.sm100", "tensor", 2560),
        ("gemm.sm90", "tensor", 1024),
        ("gemm.sm100", "tensor", 512),
    ],
)
def test_units_are_asked_for_what_the_arithmetic_says(name: str, unit: str, cycles: int) -> None:
    asked = [
        r.cycles
        for op in problem(name, contention=False).operations
        for r in op.reservations
        if r.unit == unit
    ]
    assert sum(asked) == cycles


def test_a_streamed_consumer_follows_a_chunk_behind_unless_the_rule_is_off() -> None:
    machine, found = load("h200"), example("fa_fwd_subtiled.sm90")
    apart = example("fa_fwd_subtiled.sm90", tuple(rule for rule in ALL_RULES if rule != "chain"))
    chained, whole = (
        {
            (e.src, e.dst): e
            for e in costed(g, machine, Overrides(contention=False)).edges
            if e.src.startswith("ffma") and e.dst.startswith("exp2")
        }
        for g in (found, apart)
    )
    assert {e.delay for e in chained.values()} == {30}
    assert {e.delay for e in whole.values()} == {84}
    assert {e.crossing for e in chained.values()} == {e.crossing for e in whole.values()}


def test_register_accumulators_are_held_together_and_counted_once() -> None:
    found = problem("fa_fwd_subtiled.sm90")
    accumulators = [v for v in found.values if v.resident]
    assert [v.registers for v in accumulators] == [64, 64]
    assert [sorted(op.partition(".")[0] for op in ops) for ops in found.together] == [
        *(["dot", "mul"] for _ in range(2)),
        *(["add", "mul", "reduce_sum"] for _ in range(2)),
    ]


def test_a_narrowing_operation_needs_the_larger_tile_and_not_both() -> None:
    values = {v.id: v for v in problem("fa_fwd_subtiled.sm90").values}
    (wide,) = [
        v
        for v in values.values()
        if any(u.op == "trunc.acc0_33" for u in v.uses) and v.src != "trunc.acc0_33"
    ]
    narrow, rest = values["trunc.acc0_33"], values["trunc.acc0_33.rest"]
    assert [u.hold for u in wide.uses if u.op == "trunc.acc0_33"] == [0]
    assert narrow.registers + rest.registers == wide.registers == 64
    stored = [
        v for v in problem("fa_fwd_subtiled.sm100").values if any(u.op == "put.acc0_54" for u in v.uses)
    ]
    assert [u.hold > 0 for v in stored for u in v.uses if u.op == "put.acc0_54"] == [True], (
        "a store takes nothing over"
    )


def test_tiles_from_before_the_loop_are_taken_off_the_limits() -> None:
    whole = machine_of("sm100").limits.shared
    assert problem("fa_fwd_subtiled.sm100").limits.shared == whole - 2 * 128 * 128 * 2
    assert problem("fa_fwd_subtiled.sm100", shared=100_000).limits.shared == 100_000 - 2 * 128 * 128 * 2


def test_loads_run_ahead_as_far_as_shared_memory_allows() -> None:
    roomy, tight = problem("fa_fwd_subtiled.sm90"), problem("fa_bwd.sm100")
    assert {v.slots for v in roomy.values if v.shared} == {1}
    assert {op.streaming for op in roomy.operations if op.variable} == {True}
    waited = [op for op in tight.operations if op.variable and not op.streaming]
    assert [op.latency > 0 for op in waited] == [True]
    assert [v.slots for v in tight.values if v.src == waited[0].id] == [0]
    never = problem("fa_fwd_subtiled.sm90", prefetch=0)
    assert not any(op.streaming for op in never.operations)


def test_loads_run_ahead_as_far_as_they_are_told() -> None:
    """The others as without."""
    graph, machine = example("fa_bwd_subtiled.sm90"), machine_of("fa_bwd_subtiled.sm90")
    told = Overrides(ahead={"load.x0": 0, "load.g1": 1, "dot.dz_52": 1})
    found = costed(graph, machine, told)
    assert {op.id: op.streaming for op in found.operations if op.id.startswith(("load.x", "load.g"))} == {
        "load.x0": False,
        "load.g0": True,
        "load.x1": False,
        "load.g1": True,
    }
    assert not found.operation("dot.dz_52").streaming


def test_operations_are_priced_beside_a_busy_tensor_core() -> None:
    """Attention's bound is the tensor core's, so it always works; fa_bwd's is shared memory's, so it works
    2560 of 3340 cycles."""
    beside = Overrides()
    found = {op.id: op for op in costed(example("fa_fwd_subtiled.sm90"), load("h200"), beside).operations}
    assert found["exp2.weights_20"].issue == ceil(512 * 1.33)
    assert found["dot.scores1"] == problem("fa_fwd_subtiled.sm90", contention=False).operation(
        "dot.scores1"
    ), "it does not slow itself down"
    partly = costed(example("fa_bwd.sm90"), load("h200"), beside).operation("exp2.weights_22")
    assert partly.issue == ceil(512 * (1 + 0.33 * 2560 / 3340))
    assert costed(example("fa_fwd.sm100"), load("b200"), beside) == problem(
        "fa_fwd.sm100", contention=False
    ), "nothing is known of it"


def test_the_extremes_enclose_a_problem() -> None:
    idle, busy = extremes(example("fa_bwd.sm90"), load("h200"))
    for op in costed(example("fa_bwd.sm90"), load("h200")).operations:
        assert idle.operation(op.id).issue <= op.issue <= busy.operation(op.id).issue


def test_a_given_latency_changes_the_edges_of_that_operation() -> None:
    found = example("gemm_reduction.sm90")
    changed = costed(found, load("h200"), Overrides(latency={"reduce_sum.total_12": 5000}))
    assert [e.delay for e in changed.edges if e.src == "reduce_sum.total_12"] == [5000]
    with pytest.raises(TwillError, match=r"no operation 'reduce_sum\.total'") as error:
        costed(found, load("h200"), Overrides(latency={"reduce_sum.total": 1}))
    assert "reduce_sum.total_12" in (error.value.help or "")


def test_sixteen_warps_are_refused() -> None:
    with pytest.raises(TwillError, match="16 warps"):
        costed(replace(example("gemm.sm90"), warps=16), load("h200"))


def test_a_machine_decides_the_costs() -> None:
    slow = parse(
        (Path(load("h200").file)).read_text(encoding="utf-8").replace("f16 = 2048", "f16 = 1024"), "slow.toml"
    )
    assert bounds(costed(example("gemm.sm90"), slow)).value == 2048


@pytest.mark.parametrize("name", ["fa_fwd_subtiled.sm90", "fa_fwd_subtiled.sm100", "fa_bwd.sm90"])
def test_listing(name: str, golden: Callable[[str, str], None]) -> None:
    found = example(name)
    formulas = {made.node.id: made.charge.formula for made in costs(found, machine_of(name))}
    golden(f"{name}.txt", listing(costed(found, machine_of(name)), formulas))


def test_one_group_computes_a_sum_that_is_costed_without_exchanges() -> None:
    """Where another group adds, the lanes of a row exchange in every iteration."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd.sm90.ttgir", arch="sm90"))
    assert case.graph
    assert [node.id for node in case.graph.nodes if node.partial] == ["reduce_sum.13"]
    assert {"reduce_sum.13", "add.14", "mul.12"} in map(set, case.problem.together)


def test_a_store_is_charged_the_comparisons_of_its_mask() -> None:
    """One instruction for each access of 16 bytes and comparison, two in 64 bits; not where a machine charges
    no instructions for addresses."""
    stored = tile(128, 64, dtype="f16", bits=16, registers=16)
    plain = Work("tt.store", "store", (stored,))
    masked = replace(plain, bounds=3)
    b200, h200 = (machine_of(arch) for arch in ("sm100", "sm90"))
    accesses = 128 * 64 * 2 / 16
    assert charge(masked, b200).units["alu"] - charge(plain, b200).units["alu"] == accesses * 3 / 64
    assert charge(masked, h200) == charge(plain, h200)


def test_narrow_stores_are_charged_by_their_accesses() -> None:
    """Eight times as many instructions and comparisons for accesses of 2 bytes as for such of 16; the address
    of neighbours is the same but for an offset."""
    stored = tile(128, 64, dtype="f16", bits=16, registers=16)
    wide = Work("tt.store", "store", (stored,), bounds=1, access=16)
    b200, h200 = (machine_of(arch) for arch in ("sm100", "sm90"))
    one, other = charge(wide, b200), charge(replace(wide, access=2), b200)
    accesses = 128 * 64 * 2 // 16
    assert other.units["issue"] - one.units["issue"] == 7 * 2 * accesses // 32 // 4
    assert other.units["alu"] - one.units["alu"] == 7 * accesses // 64
    assert charge(replace(wide, access=2), h200) == charge(wide, h200)


def test_a_mask_of_computed_numbers_lets_each_element_be_stored_alone() -> None:
    """`overwritten` stores a tile, and where they are positive the elements of another in its place."""
    (found,) = cases(Inputs("tests/kernels/ttgir/overwritten.sm100.ttgir", arch="sm100"))
    assert found.graph
    assert {n.id: n.work[0].access for n in found.graph.nodes if n.kind == "store"} == {
        "store.place_10": 16,
        "store.place_10.2": 4,
    }


def test_masks_are_counted_by_their_comparisons() -> None:
    """The mask of `panels` joins a comparison in 64 bits, made before the loop, with one in 32."""
    module = read(Path("tests/kernels/ttgir/panels.sm100.ttgir").read_text(encoding="utf-8"), "panels")
    (found,) = loops(module)
    (stored,) = [node for node in graph(module, found).nodes if node.kind == "store"]
    assert [work.bounds for work in stored.work] == [3]


def called(symbol: str, operands: int = 1) -> Work:
    """The work of a function of libdevice on the accumulator of a product."""
    arguments = ", ".join(["%d"] * operands)
    types = ", ".join([T] * operands)
    marks = f'libname = "libdevice", libpath = "", pure = true, symbol = "{symbol}"'
    call = f"%e = tt.extern_elementwise {arguments} {{{marks}}} : ({types}) -> {T}\n"
    nodes = loop(LOAD + DOT + call, "%acc = %zero", "%e", T).nodes
    (found,) = [work for node in nodes for work in node.work if node.kind == "elementwise"]
    return found


@pytest.mark.parametrize(
    ("symbol", "like"),
    [
        ("__nv_tanhf", "math.erf"),
        ("__nv_expf", "math.exp"),
        ("__nv_fast_log2f", "math.log"),
        ("__nv_fdiv_rn", "arith.divf"),
        ("__nv_powif", "tt.extern_elementwise"),
    ],
)
@pytest.mark.parametrize("machine", ["h200", "b200"])
def test_functions_of_libdevice_cost_as_their_like(symbol: str, like: str, machine: str) -> None:
    work, on = called(symbol), load(machine)
    assert charge(work, on) == charge(replace(work, op=like), on)


@pytest.mark.parametrize("machine", ["h200", "b200"])
def test_a_fast_division_takes_a_reciprocal_and_fewer_steps(machine: str) -> None:
    fast, on = called("__nv_fast_fdividef", operands=2), load(machine)
    found, whole = charge(fast, on), charge(replace(fast, op="arith.divf"), on)
    assert found.units["sfu"] == whole.units["sfu"] > 0
    assert 0 < found.units["fma"] < whole.units["fma"]
    assert found.units["issue"] < whole.units["issue"]
