"""Dependence graphs of small loops written here, each for one rule; the examples' graphs are compared in
tests/costs."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx import DiGraph, is_directed_acyclic_graph

from twill.diagnostics import TwillError
from twill.extract.dependence.build import graph
from twill.extract.dependence.loops import loops
from twill.extract.dependence.simplify import ALL_RULES, fused
from twill.extract.reader.ttgir import read
from twill.inputs import Inputs, cases
from twill.ir.graph import Edge, Graph

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "ttgir").glob("*.ttgir"))

HEAD = """\
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#linear = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], \
lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @f(%desc: !tt.tensordesc<64x64xf16, #shared>, %p: !tt.ptr<f32>, %n: i32, %x: f32) {
    %false = arith.constant false
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #mma>
    %one = arith.constant dense<1.000000e+00> : tensor<64x64xf32, #mma>
    %zeros = arith.constant dense<0.000000e+00> : tensor<128x64xf32, #linear>
    %q0 = tt.descriptor_load %desc[%c0, %c0] : !tt.tensordesc<64x64xf16, #shared> -> tensor<64x64xf16, #blocked>
    %q = ttg.local_alloc %q0 : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
    %ptrs = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #mma>
"""

T = "tensor<64x64xf32, #mma>"
B = "!ttg.memdesc<64x64xf16, #shared, #smem>"
D = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
LOAD = """\
%k0 = tt.descriptor_load %desc[%i, %c0] : !tt.tensordesc<64x64xf16, #shared> -> tensor<64x64xf16, #blocked>
%k = ttg.local_alloc %k0 : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
"""
DOT = f"%d = ttng.warp_group_dot %q, %k, %zero {{inputPrecision = 0 : i32}} : {B} * {B} -> {T}\n"


def loop(
    body: str,
    carried: str = "",
    yielded: str = "",
    types: str = "",
    before: str = "",
    after: str = "",
    rules: tuple[str, ...] = ALL_RULES,
) -> Graph:
    """The graph of a loop with this body. `carried` are iter_args `%a = %init, ...`."""
    arguments = f" iter_args({carried}) -> ({types}) " if carried else " "
    count = carried.count("=")
    results = f"%r:{count} = " if count > 1 else "%r = " if count else ""
    end = f"scf.yield {yielded} : {types}\n" if carried else ""
    text = (
        f"{HEAD}{before}{results}scf.for %i = %c0 to %n step %c64{arguments} : i32"
        f" {{\n{body}{end}}}\n{after}tt.return\n}}\n}}\n"
    )
    module = read(text, "test.ttgir")
    return graph(module, loops(module)[0], rules)


def pairs(found: Graph, *kinds: str) -> set[tuple[str, str, int]]:
    return {(e.src, e.dst, e.distance) for e in found.edges if not kinds or e.kind in kinds}


def test_a_load_streams_and_its_tile_lies_in_shared_memory() -> None:
    found = loop(LOAD + DOT)
    assert [(n.id, n.kind, n.streaming) for n in found.nodes] == [
        ("load.k0", "load", True),
        ("dot.d", "mma", False),
    ]
    assert pairs(found) == {("load.k0", "dot.d", 0)}
    (tile,) = [v.tile for v in found.values if v.node == "load.k0"]
    assert (tile.place, tile.bytes) == ("shared", 64 * 64 * 2)
    assert [(i.id, i.users) for i in found.invariants] == [("q", ("dot.d",))]


def test_a_chain_of_carried_values_adds_up_its_distances() -> None:
    body = LOAD + DOT + f"%s = arith.addf %b, %d : {T}\n"
    found = loop(body, "%a = %zero, %b = %zero", "%d, %a", f"{T}, {T}")
    assert ("dot.d", "add.s", 2) in pairs(found, "carried")
    assert ("dot.d", "add.s", 0) in pairs(found, "data")


def test_values_handed_round_unchanged_are_not_computed_in_the_loop() -> None:
    body = LOAD + DOT + f"%s = arith.addf %a, %d : {T}\n"
    found = loop(body, "%a = %zero, %b = %one", "%b, %a", f"{T}, {T}")
    assert pairs(found, "carried") == set()


def test_a_rescaled_accumulator_is_one_resident_value_of_one_group() -> None:
    scale = f"%e = arith.mulf %acc, %one : {T}\n"
    dot = f"%o = ttng.warp_group_dot %q, %k, %e {{inputPrecision = 0 : i32}} : {B} * {B} -> {T}\n"
    found = loop(LOAD + scale + dot, "%acc = %zero", "%o", T)
    (value,) = [v for v in found.values if v.resident]
    assert (value.node, value.writers, value.tile.registers) == ("mul.e", ("mul.e", "dot.o"), 32)
    assert pairs(found, "data", "carried") >= {("mul.e", "dot.o", 0), ("dot.o", "mul.e", 1)}


def test_readers_of_an_accumulator_come_before_its_update() -> None:
    reader = f"%w = math.exp2 %acc : {T}\n"
    scale = f"%e = arith.mulf %acc, %one : {T}\n"
    dot = f"%o = ttng.warp_group_dot %q, %k, %e {{inputPrecision = 0 : i32}} : {B} * {B} -> {T}\n"
    found = loop(LOAD + scale + dot + reader, "%acc = %zero", "%o", T)
    assert pairs(found, "war") == {("exp2.w", "mul.e", 0)}


def test_an_accumulator_that_is_read_after_its_update_is_not_in_place() -> None:
    dot = f"%o = ttng.warp_group_dot %q, %k, %acc {{inputPrecision = 0 : i32}} : {B} * {B} -> {T}\n"
    both = f"%w = arith.subf %o, %acc : {T}\n"
    found = loop(LOAD + dot + both, "%acc = %zero", "%o", T)
    assert not any(v.resident for v in found.values)
    assert not pairs(found, "war")


@pytest.mark.parametrize(("early", "kept"), [("%acc", False), ("%e", False), ("%k9", True)])
def test_no_reader_may_wait_for_the_update_of_what_it_reads(early: str, kept: bool) -> None:
    """`%w` waits for `%o`, through `%x`, and reads a value of the accumulator from before, or another."""
    body = (
        f"%k9 = math.exp2 %one : {T}\n%e = arith.mulf %acc, %one : {T}\n"
        f"%o = ttng.warp_group_dot %q, %k, %e {{inputPrecision = 0 : i32}} : {B} * {B} -> {T}\n"
        f"%x = math.exp2 %o : {T}\n%w = arith.subf %x, {early} : {T}\n"
    )
    found = loop(LOAD + body, "%acc = %zero", "%o", T)
    assert any(v.resident for v in found.values) == kept


def test_long_accumulators_take_linear_time() -> None:
    """Ten times the operations take far less than 100 times as long."""

    def seconds(count: int) -> float:
        body = "".join(f"%v{k} = arith.addf %{f'v{k - 1}' if k else 'd'}, %one : {T}\n" for k in range(count))
        start = time.process_time()
        dot = DOT.replace("%zero", "%acc")
        assert len(loop(LOAD + dot + body, "%acc = %zero", f"%v{count - 1}", T).nodes) == count + 2
        return time.process_time() - start

    seconds(20)
    long, short = (min(seconds(count) for _ in range(3)) for count in (2000, 200))
    assert long < 40 * short


def product(flag: str, token: str = "%t") -> str:
    left, right = "!ttg.memdesc<128x64xf16, #shared, #smem>", B
    return f"%u = ttng.tc_gen5_mma %a, %k, %s[{token}], {flag}, %true : {left}, {right}, {D}\n"


TENSOR = f"""\
%a0 = tt.descriptor_load %desc[%c0, %c0] : !tt.tensordesc<64x64xf16, #shared> -> tensor<128x64xf16, #blocked>
%a = ttg.local_alloc %a0 : (tensor<128x64xf16, #blocked>) -> !ttg.memdesc<128x64xf16, #shared, #smem>
%s, %s1 = ttng.tmem_alloc : () -> ({D}, !ttg.async.token)
"""
W = "tensor<128x64xf32, #linear>"
GET = f"%v, %v1 = ttng.tmem_load %s[%u] : {D} -> {W}\n"
TOKEN = "!ttg.async.token"


def test_a_buffer_overwritten_whole_is_a_fresh_value() -> None:
    found = loop(LOAD + product("%false") + GET, "%t = %s1", "%v1", TOKEN, TENSOR)
    (value,) = [v for v in found.values if v.tile.place == "tensor"]
    assert not value.resident
    assert value.tile.columns == 64
    assert pairs(found) == {("load.k0", "dot.u", 0), ("dot.u", "get.v", 0)}


@pytest.mark.parametrize(("first", "later"), [("%true", "%true"), ("%false", "%true")])
def test_a_product_that_accumulates_keeps_its_buffer(first: str, later: str) -> None:
    found = loop(LOAD + product("%f"), f"%f = {first}, %t = %s1", f"{later}, %u", f"i1, {TOKEN}", TENSOR)
    (value,) = [v for v in found.values if v.tile.place == "tensor"]
    assert value.resident
    assert [e for e in found.edges if e.accumulates] == [
        Edge("dot.u", "dot.u", "raw", 1, "dot.u", accumulates=True)
    ]


RESCALE = f"""\
%g, %g1 = ttng.tmem_load %s[%t] : {D} -> {W}
%h = arith.mulf %g, %zeros : {W}
%t2 = ttng.tmem_store %h, %s[%g1], %true : {W} -> {D}
"""


def test_load_scale_store_of_an_accumulator_is_one_node_in_place() -> None:
    found = loop(LOAD + RESCALE + product("%true", "%t2"), "%t = %s1", "%u", TOKEN, TENSOR)
    assert [n.kind for n in found.nodes] == ["load", "tensor_update", "mma"]
    (value,) = [v for v in found.values if v.tile.place == "tensor"]
    assert (value.resident, value.writers) == (True, ("update.t2", "dot.u"))
    assert pairs(found, "raw", "war", "waw") == {("update.t2", "dot.u", 0), ("dot.u", "update.t2", 1)}


def test_without_the_rule_readers_are_ordered_before_the_update() -> None:
    rules = tuple(rule for rule in ALL_RULES if rule != "stream_rmw")
    found = loop(LOAD + RESCALE + product("%true", "%t2"), "%t = %s1", "%u", TOKEN, TENSOR, rules=rules)
    assert ("get.g", "put.t2", 0) in pairs(found, "war")
    assert ("dot.u", "get.g", 1) in pairs(found, "raw")


def test_a_store_to_a_part_of_a_buffer_updates_it() -> None:
    view = "%part = ttg.memdesc_subslice %m [0, 0] : !ttg.memdesc<64x64xf16, #shared, #smem, mutable> -> "
    before = "%m = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>\n"
    half = "!ttg.memdesc<32x64xf16, #shared, #smem, mutable, 64x64>"
    cast = f"%e = arith.truncf %d : {T} to tensor<64x64xf16, #mma>\n"
    store = f"ttg.local_store %e, %part : tensor<64x64xf16, #mma> -> {half}\n"
    fetch = (
        "%g = ttg.local_load %m : !ttg.memdesc<64x64xf16, #shared, #smem, mutable> -> tensor<64x64xf16,"
        " #blocked>\n"
    )
    found = loop(LOAD + DOT + cast + f"{view}{half}\n" + store + fetch, before=before)
    (value,) = [v for v in found.values if v.resident]
    assert value.tile.place == "shared"
    assert pairs(found, "war") == {("fetch.g", "stage.e", 1)}


def test_loads_from_memory_that_the_loop_writes_do_not_stream() -> None:
    body = (
        f"%g = tt.load %ptrs : tensor<64x64x!tt.ptr<f32>, #mma>\n{LOAD}{DOT}tt.store %ptrs, %d :"
        " tensor<64x64x!tt.ptr<f32>, #mma>\n"
    )
    found = loop(body)
    assert not found.node("load.g").streaming
    assert found.node("load.k0").streaming
    assert ("store.ptrs", "load.g", 1) in pairs(found, "raw")


def reduced(kind: str, name: str) -> str:
    tile, pointers = "tensor<64x64xf32, #mma>", "tensor<64x64x!tt.ptr<f32>, #mma>"
    return f"%{name} = tt.atomic_rmw {kind}, acq_rel, gpu, %ptrs, %d : ({pointers}, {tile}) -> {tile}\n"


def test_atomics_of_different_kinds_are_ordered() -> None:
    """Sums commute with sums, not with maxima; all come behind the store, not only the first."""
    store = "tt.store %ptrs, %one : tensor<64x64x!tt.ptr<f32>, #mma>\n"
    found = loop(LOAD + DOT + store + reduced("fadd", "u") + reduced("fadd", "v") + reduced("max", "w"))
    first, second, third = (f"atomic.{name}" for name in "uvw")
    assert pairs(found, "waw") == {
        ("store.ptrs", first, 0),
        ("store.ptrs", second, 0),
        (first, third, 0),
        (second, third, 0),
        (third, "store.ptrs", 1),
    }


def test_an_atomic_whose_result_is_read_is_ordered() -> None:
    read = "%x2 = arith.addf %u, %d : tensor<64x64xf32, #mma>\ntt.store %ptrs, %x2 : tensor<64x64x!tt.ptr<f32>, #mma>\n"
    found = loop(LOAD + DOT + reduced("fadd", "v") + reduced("fadd", "u") + read)
    assert ("atomic.v", "atomic.u", 0) in pairs(found, "waw")


def test_register_tiles_from_before_the_loop_take_room_unless_cheap_to_make_again() -> None:
    before = f"""\
%loaded = tt.load %ptrs : tensor<64x64x!tt.ptr<f32>, #mma>
%weights = math.exp2 %loaded : {T}
%scale = tt.splat %x : f32 -> {T}
"""
    body = LOAD + DOT + f"%e = arith.mulf %d, %weights : {T}\n%g = arith.mulf %e, %scale : {T}\n"
    found = loop(body, before=before)
    assert [(i.id, i.tile.place, i.tile.registers, i.users) for i in found.invariants] == [
        ("q", "shared", 0, ("dot.d",)),
        ("weights", "registers", 32, ("mul.e",)),
    ]


def test_operations_on_large_tiles_with_one_reader_become_one_node() -> None:
    body = LOAD + DOT + f"%e = math.exp2 %d : {T}\n%g = arith.mulf %e, %one : {T}\n%h = arith.negf %e : {T}\n"
    found = loop(body)
    assert fused(found) == found, "each result has two readers, or none"
    chain = LOAD + DOT + f"%e = math.exp2 %d : {T}\n%g = arith.negf %e : {T}\n%h = math.exp2 %g : {T}\n"
    found = fused(loop(chain))
    assert [node.id for node in found.nodes] == ["load.k0", "dot.d", "exp2.h"]
    assert [work.op for work in found.node("exp2.h").work] == ["math.exp2", "arith.negf", "math.exp2"]
    assert {value.node for value in found.values} >= {"dot.d"}
    assert not {value.node for value in found.values} & {"exp2.e", "neg.g"}


def test_operations_on_large_tiles_go_piece_by_piece_into_the_store_that_alone_reads_them() -> None:
    stored = "!ttg.memdesc<64x64xf32, #shared, #smem>"
    body = LOAD + DOT + f"%e = math.exp2 %d : {T}\n%g = arith.negf %e : {T}\n"
    found = loop(body + f"%s = ttg.local_alloc %g : ({T}) -> {stored}\n")
    assert [node.id for node in fused(found).nodes] == [node.id for node in found.nodes]
    (store,) = [node for node in fused(found, stores=True).nodes if node.kind == "shared_store"]
    assert [work.op for work in store.work] == ["math.exp2", "arith.negf", "ttg.local_alloc"]


def test_a_change_of_layout_takes_over_the_registers_of_its_operand() -> None:
    other = "tensor<64x64xf32, #blocked>"
    changed = f"%e = ttg.convert_layout %d : {T} -> {other}\n"
    stored = f"%r = arith.addf %e, %e : {other}\n"
    found = loop(LOAD + DOT + changed + stored)
    (made,) = [v for v in found.values if v.node == "dot.d"]
    assert [(use.node, use.keeps) for use in made.uses] == [("convert.e", False)]


def test_index_arithmetic_is_folded_only_where_it_addresses() -> None:
    row = "tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>"
    before = f"%start = arith.constant dense<0> : {row}\n"
    joined = "^bb0(%x0: i32, %x1: i32):\n%x2 = arith.addi %x0, %x1 : i32\ntt.reduce.return %x2 : i32\n"
    reduced = (
        f'%m = "tt.reduce"(%w) <{{axis = 1 : i32}}> ({{\n{joined}}}) : (tensor<64x64xi32, #mma>) -> {row}\n'
    )
    count = (
        f"%w = arith.fptosi %d : {T} to tensor<64x64xi32, #mma>\n{reduced}%s = arith.addi %b, %m : {row}\n"
    )
    used = f"%z = arith.addi %r, %r : {row}\n"
    kept = loop(LOAD + DOT + count, "%b = %start", "%s", row, before, used)
    assert ("addi.s", "addi.s", 1) in pairs(kept, "carried")
    step = f"%o = tt.splat %i : i32 -> {row}\n%t = arith.addi %o, %b : {row}\n"
    assert {n.kind for n in loop(LOAD + DOT + step, "%b = %start", "%t", row, before).nodes} == {
        "load",
        "mma",
    }


def test_long_chains_of_addresses_that_meet_again_are_followed_once() -> None:
    """Each operation reads the last one twice: following every path would take 2^500 steps."""
    tile, pointers = "tensor<64x64xi32, #mma>", "tensor<64x64x!tt.ptr<f32>, #mma>"
    chain = [f"%e0 = tt.splat %i : i32 -> {tile}\n"]
    chain += [f"%e{i} = arith.addi %e{i - 1}, %e{i - 1} : {tile}\n" for i in range(1, 500)]
    store = f"%at = tt.addptr %ptrs, %e499 : {pointers}, {tile}\ntt.store %at, %d : {pointers}\n"
    assert [n.kind for n in loop(LOAD + DOT + "".join(chain) + store).nodes] == ["load", "mma", "store"]


def test_a_pure_branch_is_one_node() -> None:
    then, otherwise = f"%w = math.exp2 %d : {T}\nscf.yield %w : {T}\n", f"scf.yield %d : {T}\n"
    branch = (
        f"%c = arith.cmpi sgt, %i, %c64 : i32\n%s = scf.if %c -> ({T}) {{\n{then}}} else {{\n{otherwise}}}\n"
    )
    found = loop(LOAD + DOT + branch)
    node = found.node("branch.s")
    assert ([w.op for w in node.work], node.otherwise) == (["math.exp2"], ())
    assert pairs(found) == {("load.k0", "dot.d", 0), ("dot.d", "branch.s", 0)}


def test_a_branch_that_touches_memory_is_refused_at_its_place() -> None:
    branch = (
        "%c = arith.cmpi sgt, %i, %c64 : i32\nscf.if %c {\ntt.store %ptrs, %d : tensor<64x64x!tt.ptr<f32>,"
        " #mma>\n}\n"
    )
    with pytest.raises(TwillError, match=r"tt\.store inside scf\.if") as error:
        loop(LOAD + DOT + branch)
    assert error.value.location is not None
    assert error.value.location.line == HEAD.count("\n") + 1 + 5 + 1
    assert error.value.help


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"%e = ttng.warp_group_dot %q, %k, %x : {B} * {B} -> {T}", "needs A, B and D"),
        (f"%e = ttng.tmem_load %k : {B} -> {T}", "reads tensor memory"),
        (f"%e = ttg.local_alloc %d : ({T}) -> {T}", "allocates smem"),
        (f"ttng.tmem_store %d, %k, %true : {T} -> {B}", "writes tmem"),
    ],
)
def test_an_operation_that_lacks_something_is_refused_at_its_place(line: str, message: str) -> None:
    with pytest.raises(TwillError, match=message) as error:
        loop(LOAD + DOT + line + "\n")
    assert error.value.location is not None
    assert error.value.location.line == HEAD.count("\n") + 1 + 4


def test_an_unknown_operation_is_refused_at_its_place() -> None:
    with pytest.raises(TwillError, match=r"ttng\.mystery cannot be scheduled") as error:
        loop(LOAD + DOT + f"%e = ttng.mystery %d : {T} -> {T}\n")
    assert error.value.location is not None


def test_a_multiply_by_an_invariant_or_of_a_large_tile_and_a_subtraction_are_one_node() -> None:
    tail = f"%m = arith.mulf %d, %one : {T}\n%s = arith.subf %m, %d : {T}\n"
    assert "ffma.s" in {n.id for n in loop(LOAD + DOT + tail).nodes}
    square = f"%m = arith.mulf %d, %d : {T}\n%s = arith.subf %m, %d : {T}\n"
    assert "ffma.s" in {n.id for n in loop(LOAD + DOT + square).nodes}
    half = T.replace("f32", "f16")
    rounded = f"%h = arith.truncf %d : {T} to {half}\n" + square.replace(T, half).replace("%d", "%h")
    assert "ffma.s" not in {n.id for n in loop(LOAD + DOT + rounded).nodes}
    apart = loop(LOAD + DOT + tail, rules=tuple(rule for rule in ALL_RULES if rule != "ffma"))
    assert {"mul.m", "sub.s"} <= {n.id for n in apart.nodes}


WORDS = """\
%w = tt.load %words : tensor<64x64x!tt.ptr<i32>, #mma>
%low = arith.andi %w, %masks : tensor<64x64xi32, #mma>
%high = arith.shrsi %w, %masks : tensor<64x64xi32, #mma>
%sum = arith.addi %low, %high : tensor<64x64xi32, #mma>
%number = arith.sitofp %sum : tensor<64x64xi32, #mma> to tensor<64x64xf32, #mma>
"""
MASKS = """\
%masks = arith.constant dense<15> : tensor<64x64xi32, #mma>
%integers = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<i32>
%words = tt.splat %integers : !tt.ptr<i32> -> tensor<64x64x!tt.ptr<i32>, #mma>
"""


def test_what_unpacks_the_same_words_is_one_node_that_reads_them_once() -> None:
    tail = f"%s = arith.addf %number, %d : {T}\n"
    found = loop(WORDS + LOAD + DOT + tail, before=MASKS)
    assert not {"andi.low", "shrsi.high"} & {node.id for node in found.nodes}
    (node,) = [node for node in found.nodes if node.id == "addi.sum"]
    assert [(work.op, work.beside) for work in node.work] == [
        ("arith.andi", False),
        ("arith.shrsi", True),
        ("arith.addi", False),
    ]
    read = [tile.place for work in node.work[:2] for tile in work.inputs if tile.place == "shared"]
    assert read == ["shared"]
    apart = loop(WORDS + LOAD + DOT + tail, before=MASKS, rules=tuple(r for r in ALL_RULES if r != "unpack"))
    assert {"andi.low", "shrsi.high", "addi.sum"} <= {node.id for node in apart.nodes}


def test_words_of_which_something_else_is_computed_are_read_apart() -> None:
    tail = f"%more = arith.sitofp %high : tensor<64x64xi32, #mma> to {T}\n"
    tail += f"%s = arith.addf %number, %d : {T}\n%t = arith.addf %more, %s : {T}\n"
    found = loop(WORDS + LOAD + DOT + tail, before=MASKS)
    assert {"andi.low", "shrsi.high"} <= {node.id for node in found.nodes}


# --- the examples -----------------------------------------------------------------------------------------


def graphs(path: Path, rules: tuple[str, ...]) -> list[Graph]:
    module = read(path.read_text(encoding="utf-8"), path.name)
    return [graph(module, found, rules) for found in loops(module) if found.schedulable]


def circuits(found: Graph) -> bool:
    """Whether the edges within one iteration close a circuit."""
    flow: DiGraph[str] = DiGraph()
    flow.add_nodes_from(n.id for n in found.nodes)
    flow.add_edges_from((e.src, e.dst) for e in found.edges if e.distance == 0)
    return not is_directed_acyclic_graph(flow)


@settings(max_examples=40, deadline=None)
@given(path=st.sampled_from(EXAMPLES), rules=st.sets(st.sampled_from(ALL_RULES)))
def test_every_choice_of_rules_gives_a_sound_graph(path: Path, rules: set[str]) -> None:
    for found in graphs(path, tuple(rule for rule in ALL_RULES if rule in rules)):
        ids = [n.id for n in found.nodes]
        assert len(set(ids)) == len(ids)
        assert all(e.src in ids and e.dst in ids and e.distance >= 0 for e in found.edges)
        assert all(
            v.node in ids and {u.node for u in v.uses} | set(v.writers) <= set(ids) for v in found.values
        )
        assert len({v.id for v in found.values}) == len(found.values)
        assert not circuits(found)
        members = [index for n in found.nodes for index in n.ops]
        assert len(set(members)) == len(members)


@pytest.mark.parametrize(
    ("name", "plain", "simplified"), [("fa_fwd_subtiled.sm90", 32, 30), ("fa_fwd_subtiled.sm100", 40, 32)]
)
def test_attention_has_the_nodes_that_the_paper_draws(name: str, plain: int, simplified: int) -> None:
    path = next(p for p in EXAMPLES if p.name == f"{name}.ttgir")
    whole = tuple(rule for rule in ALL_RULES if rule not in ("ffma", "stream_rmw", "stream_store"))
    assert [len(found.nodes) for found in graphs(path, whole)] == [plain]
    assert [len(found.nodes) for found in graphs(path, ALL_RULES)] == [simplified]


def test_what_is_chosen_for_the_next_iteration_is_loaded_in_this_one(tmp_path: Path) -> None:
    """The choice between what was loaded and what there was belongs to the load that reads it an iteration
    later; it is executed before, so the load of what it chooses comes first in each iteration. (The branch
    has another condition than the loop, under which nothing is prepared in place.)"""
    text = Path("tests/kernels/ttgir/peeked_rows.sm90.ttgir").read_text(encoding="utf-8")
    file = tmp_path / "peeked_rows.ttgir"
    file.write_text(text.replace("arith.cmpi slt, %26, %K", "arith.cmpi sle, %26, %K"), encoding="utf-8")
    (case,) = cases(Inputs(str(file), arch="sm90"))
    assert case.graph
    found = {
        edge.distance
        for edge in case.graph.edges
        if edge.src.startswith("load.number") and edge.dst.startswith("load.y")
    }
    assert found == {0, 1}
