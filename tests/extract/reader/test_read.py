"""The reader on small texts, one construct at a time."""

import pytest

from twill.diagnostics import Location, TwillError
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.ir import loop as ir

HEADER = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
#loc = loc("kernels.py":1:1)
"""


def module(
    body: str, args: str = "%a: i32, %f: f32, %t: tensor<64x64xf32, #blocked>, %p: !tt.ptr<f16>"
) -> ir.Module:
    """A module whose function holds `body`."""
    return read(
        f"{HEADER}module {{\n  tt.func public @k({args}) {{\n{body}\n    tt.return\n  }}\n}}\n", "k.ttgir"
    )


def op(body: str, name: str | None = None) -> ir.Op:
    """The operation called `name`, by default the first one."""
    (function,) = module(body).functions
    return next(op for op in function.walk() if name in (None, op.name))


def typed(text: str) -> ir.Type:
    """The type that `text` means."""
    return op(f"%x = tt.made %a : i32 -> {text}").result.type


# --- operations -------------------------------------------------------------------------------------------


def test_operands_results_and_place() -> None:
    found = module("    %x = arith.addi %a, %a : i32").functions[0]
    add, ret = found.walk()
    assert (add.name, add.index, ret.index) == ("arith.addi", 0, 1)
    assert add.operands == (found.args[0], found.args[0])
    assert (add.result.name, add.result.type, add.result.producer) == ("%x", ir.Scalar("i32"), 0)
    assert add.location == Location("k.ttgir", 7, 10)


def test_span_covers_the_operation_without_its_location() -> None:
    text = (
        f"{HEADER}tt.func @k(%a: i32) {{\n  %x = arith.addi %a, %a {{b = 1 : i32}} : i32 loc(#loc)\n "
        " tt.return\n}\n"
    )
    add, ret = read(text, "f").functions[0].walk()
    assert text[add.span.start : add.span.end] == "%x = arith.addi %a, %a {b = 1 : i32} : i32"
    assert text[ret.span.start : ret.span.end] == "tt.return"


def test_several_results() -> None:
    split = op("%x:2 = tt.pair %a : i32 -> i32, f32")
    assert [(v.name, v.type, v.position) for v in split.results] == [
        ("%x#0", ir.Scalar("i32"), 0),
        ("%x#1", ir.Scalar("f32"), 1),
    ]
    user = op(
        "%x:2 = tt.pair %a : i32 -> i32, f32\n%y, %z = tt.pair %x#1 : f32 -> i32, i1\ntt.use %z, %x :"
        " i1, i32",
        "tt.use",
    )
    assert [v.name for v in user.operands] == ["%z", "%x#0"]


def test_sibling_regions_reuse_names() -> None:
    body = "\n".join(
        f'%r{k} = "tt.reduce"(%t) <{{axis = {k} : i32}}> ({{\n^bb0(%x: f32 loc(#loc), %y: f32 loc(#loc)):\n'
        "%z = arith.addf %x, %y : f32\ntt.reduce.return %z : f32\n"
        "}) : (tensor<64x64xf32, #blocked>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>"
        for k in (0, 1)
    )
    adds = [op for op in module(body).functions[0].walk() if op.name == "arith.addf"]
    assert len({value for op in adds for value in (*op.operands, op.result)}) == 6
    reduce = op(body, "tt.reduce")
    assert reduce.attributes["axis"] == 0
    assert len(reduce.regions[0].blocks[0].args) == 2
    assert [inner.name for inner in reduce.inner()] == ["arith.addf", "tt.reduce.return"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arith.constant 7 : i64", 7),
        ("arith.constant -3 : i32", -3),
        ("arith.constant true", True),
        ("arith.constant 0 : i1", False),
        ("arith.constant 0.5 : f32", 0.5),
        ("arith.constant 0xFF800000 : f32", float("-inf")),
        ("arith.constant 0xFC00 : f16", float("-inf")),
        ("arith.constant 0x3F80 : bf16", 1.0),
        ("arith.constant dense<1.000000e+00> : tensor<64xf32>", 1.0),
        ("arith.constant dense<0x7F800000> : tensor<64xf32>", float("inf")),
        ("arith.constant dense<true> : tensor<64xi1>", True),
        ("arith.constant dense<[1, 2]> : tensor<2xi32>", ir.Raw("dense<[1, 2]>")),
        ("arith.constant {a = 1 : i32} 9 : index", 9),
    ],
)
def test_constants(text: str, expected: ir.Attribute) -> None:
    value = op(f"%x = {text}").attributes["value"]
    assert value == expected
    assert type(value) is type(expected)


def test_attributes() -> None:
    text = (
        '{a = 1 : i32, b, c = "x\\"y", d = array<i32: 1, -2>, e = [true, 0.5 : f32], f = {g = 2 : i64}, h ='
        " #ttg.x<1>, i = f32}"
    )
    assert op(f"tt.x %a {text}").attributes == {
        "a": 1, "b": True, "c": 'x"y', "d": (1, -2), "e": (True, 0.5), "f": {"g": 2}, "h": ir.Raw("#ttg.x<1>"), "i": "f32"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%x = arith.cmpi slt, %a, %a : i32", {"predicate": "slt"}),
        ("%x = tt.get_program_id y : i32", {"axis": "y"}),
        ("%x = arith.addf %f, %f fastmath<fast> : f32", {"fastmath": ir.Raw("<fast>")}),
        ("%x = tt.clampf %f, %f, %f, propagateNan = none : f32", {"propagateNan": "none"}),
        (
            "%x = tt.dot %t, %t, %t, inputPrecision = tf32 : tensor<1xf16> * tensor<1xf16> -> tensor<1xf32>",
            {"inputPrecision": "tf32"},
        ),
        ("tt.store %p, %f evictionPolicy = evict_last : !tt.ptr<f16>", {"evictionPolicy": "evict_last"}),
        ("%x = tt.load %p lonely : !tt.ptr<f16>", {"words": ("lonely",)}),
        ('tt.assert %a, "too big" : i32', {"message": "too big"}),
    ],
)
def test_words_of_the_custom_form(text: str, expected: dict[str, ir.Attribute]) -> None:
    assert op(text).attributes == expected


def test_operands_come_in_their_declared_order() -> None:
    tmem = (
        "!ttg.memdesc<64x64xf32, #ttng.tensor_memory_encoding<blockM = 64, blockN = 64, colStride = 1>,"
        " #ttng.tensor_memory, mutable>"
    )
    body = f"""
    %true = arith.constant true
    %m, %tok = ttng.tmem_alloc : () -> ({tmem}, !ttg.async.token)
    %new = ttng.tmem_store %t, %m[%tok], %true : tensor<64x64xf32, #blocked> -> {tmem}
    %d = tt.make_tensor_descriptor %p, [%a, %a], [%a, %a] : <f16>, <64x64xf32, #shared>
    tt.descriptor_store %d[%a, %a], %t : !tt.tensordesc<64x64xf32, #shared>, tensor<64x64xf32, #blocked>"""
    store = op(body, "ttng.tmem_store")
    assert [v.name for v in store.operands] == ["%m", "%tok", "%t", "%true"]
    assert store.result.type == ir.Token()
    assert [v.name for v in op(body, "tt.descriptor_store").operands] == ["%d", "%t", "%a", "%a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%x = arith.cmpf ogt, %t, %t : tensor<64x64xf32, #blocked>", "tensor i1"),
        ("%x = tt.load %p : !tt.ptr<f16>", "f16"),
        ("%x = tt.addptr %p, %a : !tt.ptr<f16>, i32", "pointer"),
        ("%x = arith.truncf %f : f32 to f16", "f16"),
        ("%x = arith.select %a, %f, %f : f32", "f32"),
        ("%x = tt.unsplat %t : tensor<64x64xf32, #blocked>", "f32"),
        ("%x = nvg.cluster_id {n = 1 : i32}", "i32"),
        ("%x = tt.fp_to_fp %f rbits = %a : i32, rounding = rs : f32 -> f16", "f16"),
        ("%x = tt.fp_to_fp %f, rbits = %a {n = 1 : i32}, rounding = rs : f32 -> f16", "f16"),
        (
            (
                "%x = tt.fp_to_fp %t, rounding = rtne : tensor<64x64xf32, #blocked> -> tensor<64x64xf16,"
                " #blocked>"
            ),
            "tensor f16",
        ),
    ],
)
def test_result_types_that_the_text_implies(text: str, expected: str) -> None:
    match op(text).result.type:
        case ir.Tensor(dtype=ir.Scalar(name)):
            assert f"tensor {name}" == expected
        case ir.Pointer():
            assert expected == "pointer"
        case ty:
            assert ty == ir.Scalar(expected)


# --- control flow -----------------------------------------------------------------------------------------

LOOP = """
    %r:2 = scf.for %i = %a to %a
        step %a
        iter_args(%x = %f,
                  %y = %t) -> (f32, tensor<64x64xf32, #blocked>) : i32 {
      %z = arith.addf %x, %x : f32
      scf.yield %z, %y : f32, tensor<64x64xf32, #blocked>
    } {tt.loop_unroll_factor = 1 : i32}
"""


def test_loop_header_over_several_lines() -> None:
    (loop,) = loops(module(LOOP))
    assert (loop.path, loop.induction and loop.induction.name) == ("k/for.0", "%i")
    assert [(c.arg.name, c.init.name, c.yielded.name, c.result.name) for c in loop.carried] == [
        ("%x", "%f", "%z", "%r#0"),
        ("%y", "%t", "%y", "%r#1"),
    ]
    assert loop.op.attributes == {"tt.loop_unroll_factor": 1}
    assert [op.name for op in loop.ops] == ["arith.addf"]


def test_elided_yield() -> None:
    (loop,) = loops(module("scf.for %i = %a to %a step %a : i32 {\n tt.x %i\n}"))
    assert [op.name for op in loop.ops] == ["tt.x"]
    assert loop.induction is not None
    assert loop.induction.type == ir.Scalar("i32")


def test_branches_and_while() -> None:
    body = """
    %r = scf.if %a -> (f32) {
      scf.yield %f : f32
    } else {
      %g = arith.addf %f, %f : f32
      scf.yield %g : f32
    }
    %w:2 = scf.while (%x = %f, %y = %a) : (f32, i32) -> (i32, f32) {
      scf.condition(%y) %y, %x : i32, f32
    } do {
    ^bb0(%u: i32 loc(#loc), %v: f32):
      scf.yield %v, %u : f32, i32
    } attributes {n = 1 : i32}
    scf.if %a {
    }"""
    branch, loop = op(body, "scf.if"), op(body, "scf.while")
    assert [len(region.blocks[0].ops) for region in branch.regions] == [1, 2]
    assert branch.result.type == ir.Scalar("f32")
    assert [v.name for v in loop.regions[1].blocks[0].args] == ["%u", "%v"]
    assert [v.type for v in loop.results] == [ir.Scalar("i32"), ir.Scalar("f32")]
    assert loop.attributes == {"n": 1}


def test_blocks_with_successors() -> None:
    text = (
        "tt.func @k(%c: i1) {\n cf.cond_br %c, ^bb1, ^bb2(%c : i1)\n^bb1:\n tt.return\n^bb2(%x: i1):\n tt.use"
        " %x : i1\n tt.return\n}"
    )
    body = read(text, "f").functions[0].body
    assert body is not None
    assert [len(block.ops) for block in body.blocks] == [1, 1, 2]
    assert [v.name for v in body.blocks[0].ops[0].operands] == ["%c", "%c"]


def test_warp_specialize() -> None:
    body = """
    ttg.warp_specialize(%a, %f) attributes {requestedRegisters = array<i32: 24>}
    default {
      tt.x %a
      ttg.warp_yield
    }
    partition0(%b: i32, %g: f32) num_warps(4) {
      %c = arith.addi %b, %b : i32
      ttg.warp_return
    } : (i32, f32) -> ()"""
    specialize = op(body, "ttg.warp_specialize")
    assert [[op.name for op in region.blocks[0].ops] for region in specialize.regions] == [
        ["tt.x", "ttg.warp_yield"],
        ["arith.addi", "ttg.warp_return"],
    ]
    assert specialize.attributes == {"requestedRegisters": (24,)}


# --- types ------------------------------------------------------------------------------------------------

SHARED = ir.NvmmaShared(128, False, 16, False)
BLOCKED = ir.Blocked((1, 8), (2, 16), (4, 1), (1, 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16", ir.Scalar("bf16")),
        ("!tt.ptr<f16, 3>", ir.Pointer(ir.Scalar("f16"), 3)),
        ("!ttg.async.token", ir.Token()),
        ("tensor<64xf32>", ir.Tensor((64,), ir.Scalar("f32"))),
        ("tensor<f32>", ir.Tensor((), ir.Scalar("f32"))),
        ("tensor<2x!tt.ptr<i8>, #blocked>", ir.Tensor((2,), ir.Pointer(ir.Scalar("i8")), BLOCKED)),
        ("!tt.tensordesc<tensor<64x32xf16, #shared>>", ir.TensorDesc((64, 32), ir.Scalar("f16"), SHARED)),
        ("!tt.tensordesc<64x32xf16, #shared>", ir.TensorDesc((64, 32), ir.Scalar("f16"), SHARED)),
        ("!tt.tensordesc<64x32xf16>", ir.TensorDesc((64, 32), ir.Scalar("f16"))),
        (
            "!ttg.memdesc<8x4xf16, #shared, #smem>",
            ir.MemDesc((8, 4), ir.Scalar("f16"), SHARED, "smem", False, (8, 4)),
        ),
        (
            "!ttg.memdesc<8x4xf16, #shared, #smem, mutable, 3x8x4>",
            ir.MemDesc((8, 4), ir.Scalar("f16"), SHARED, "smem", True, (3, 8, 4)),
        ),
        ("!nvvm.thing<a, b>", ir.UnknownType("!nvvm.thing<a, b>")),
        ("vector<4xf32>", ir.UnknownType("vector<4xf32>")),
    ],
)
def test_types(text: str, expected: ir.Type) -> None:
    assert typed(text) == expected


MMA = ir.NvidiaMma((3, 0), (4, 1), (16, 128, 16))
MMA_TEXT = (
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MMA_TEXT, MMA),
        ("#ttg.slice<{dim = 1, parent = #blocked}>", ir.Slice(1, BLOCKED)),
        (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA_TEXT}, kWidth = 2}}>", ir.DotOperand(0, MMA, 2)),
        ("#ttg.dot_op<{opIdx = 1, parent = #blocked}>", ir.DotOperand(1, BLOCKED, None)),
        (
            "#ttg.linear<{register = [[0, 1], [0, 2]], lane = [[1, 0]], warp = [], block = []}>",
            ir.Linear(((0, 1), (0, 2)), ((1, 0),), (), ()),
        ),
        (
            "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
            ir.SwizzledShared(8, 1, 8, (1, 0)),
        ),
        (
            "#ttg.shared_linear<{offset = [[0, 1]], block = []}, alignment = 128>",
            ir.SharedLinear(((0, 1),), (), 128),
        ),
        (
            "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, unpacked = true>",
            ir.TensorMemory(128, 64, 1, False),
        ),
        (
            "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, unpacked = false>",
            ir.TensorMemory(128, 64, 1, False),
        ),
        (
            "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 2>",
            ir.TensorMemory(128, 64, 2, False),
        ),
        ("#ttng.tensor_memory_scales_encoding<>", ir.TensorMemoryScales()),
        ("#ttg.future<{a = 1}>", ir.UnknownEncoding("#ttg.future<{a = 1}>")),
        (
            "#ttg.slice<{dim = 1, mother = #blocked}>",
            ir.UnknownEncoding("#ttg.slice<{dim = 1, mother = #blocked}>"),
        ),
    ],
)
def test_encodings(text: str, expected: ir.Encoding) -> None:
    assert typed(f"tensor<64x64xf32, {text}>") == ir.Tensor((64, 64), ir.Scalar("f32"), expected)


@pytest.mark.parametrize(("dtype", "stride"), [("f32", 1), ("f16", 2), ("f8E5M2", 4)])
def test_unpacked_tensor_memory_takes_a_column_for_each_element(dtype: str, stride: int) -> None:
    encoding = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, unpacked = true>"
    found = typed(f"!ttg.memdesc<128x64x{dtype}, {encoding}, #ttng.tensor_memory>")
    assert isinstance(found, ir.MemDesc)
    assert found.encoding == ir.TensorMemory(128, 64, stride, False)


def test_module_attributes_and_aliases() -> None:
    text = HEADER + 'module attributes {"ttg.num-warps" = 8 : i32, ttg.target = "cuda:90"} {\n}\n'
    found = read(text, "f")
    assert (found.num_warps, found.target, found.threads_per_warp, found.num_ctas) == (8, "cuda:90", 32, 1)
    assert found.encodings == {"#blocked": BLOCKED, "#shared": SHARED}


def test_function_header() -> None:
    arguments = '%a: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("a"(#loc)), %n: i32'
    text = (
        f"tt.func private @f({arguments}) -> (f32, i32) attributes {{noinline = true}} {{\n}}\n#loc ="
        " loc(unknown)\n"
    )
    (function,) = read(text, "f").functions
    assert (function.name, function.public, function.attributes) == ("f", False, {"noinline": True})
    assert function.arg_attributes == ({"tt.divisibility": 16}, {})
    assert function.results == (ir.Scalar("f32"), ir.Scalar("i32"))


# --- locations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sources", "label"),
    [
        ('loc("k.py":3:7)', [3], None),
        ('loc("k.py":3:7 to :4:9)', [3], None),
        ('loc("acc"("k.py":3:7))', [3], "acc"),
        ("loc(#one)", [1], "x"),
        ("loc(#two)", [1], "y"),
        ('loc(callsite("k.py":3:7 at "k.py":9:1))', [3, 9], None),
        ("loc(callsite(#one at callsite(#two at #one)))", [1, 1, 1], "x"),
        ('loc(fused<"meta">[unknown, "k.py":5:1])', [5], None),
        ("loc(unknown)", [], None),
    ],
)
def test_locations(text: str, sources: list[int], label: str | None) -> None:
    tail = '#one = loc("x"("k.py":1:2))\n#two = loc("y"(#one))\n'
    function = read(f"tt.func @k() {{\n  tt.return {text}\n}}\n{tail}", "f").functions[0]
    (ret,) = function.walk()
    assert [place.line for place in ret.sources] == sources
    assert ret.label == label


def test_long_chains_of_location_names() -> None:
    """Triton names a loop once for each of its carried values."""
    chain = (
        "".join(f'#loc{k} = loc("v{k}"(#loc{k + 1}))\n' for k in range(500)) + '#loc500 = loc("k.py":8:1)\n'
    )
    (ret,) = read(f"tt.func @k() {{\n  tt.return loc(#loc0)\n}}\n{chain}", "f").functions[0].walk()
    assert (ret.sources, ret.label) == ((Location("k.py", 8, 1),), "v0")


# --- where attributes can be added ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%x = arith.addi %a, %a : i32", "%x = arith.addi %a, %a {n = 1 : i32} : i32"),
        ("%x = tt.x %a {} : i32 -> i32", "%x = tt.x %a {n = 1 : i32} : i32 -> i32"),
        ("%x = tt.x %a {b} : i32 -> i32", "%x = tt.x %a {n = 1 : i32, b} : i32 -> i32"),
        ("%x = arith.constant 1 : i32", "%x = arith.constant {n = 1 : i32} 1 : i32"),
        ("gpu.barrier", "gpu.barrier {n = 1 : i32}"),
        (
            "%x = tt.fp_to_fp %f, rounding = rtne : f32 -> f16",
            "%x = tt.fp_to_fp %f {n = 1 : i32}, rounding = rtne : f32 -> f16",
        ),
        (
            "%x = tt.fp_to_fp %f {}, rounding = rtne : f32 -> f16",
            "%x = tt.fp_to_fp %f {n = 1 : i32}, rounding = rtne : f32 -> f16",
        ),
        ("scf.if %a {\n}", "scf.if %a {\n} {n = 1 : i32}"),
        (
            "scf.for %i = %a to %a step %a : i32 {\n}",
            "scf.for %i = %a to %a step %a : i32 {\n} {n = 1 : i32}",
        ),
        ("scf.while : () -> () {\n} do {\n}", "scf.while : () -> () {\n} do {\n} attributes {n = 1 : i32}"),
    ],
)
def test_attributes_can_be_spliced_in(before: str, after: str) -> None:
    found = module(before)
    first = next(iter(found.functions[0].walk()))
    at = first.slot.offset
    text = found.text[:at] + first.slot.insertion("n = 1 : i32") + found.text[at:]
    assert after in text
    assert next(iter(read(text, "f").functions[0].walk())).attributes["n"] == 1


# --- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message", "column"),
    [
        ("tt.x %b", "`%b` is used before it is defined", 6),
        ("%x:2 = tt.p %a : i32 -> i32, i32\ntt.x %x#2", "`%x` has only 2 results", 6),
        ("%x = tt.p %a : i32 -> i32\n%x = tt.p %a : i32 -> i32", "`%x` is defined twice", 1),
        ("%x = arith.addi %a : i32", "arith.addi takes at least 2 operands, here are 1", 6),
        ("%x = arith.addf %f, %a : f32", "`%a` is given another type than it was defined with", 6),
        ("%x = tt.p %a", "1 results are named, but the text gives types for 0", 6),
        ("%x = tt.p %a : i32 -> tensor<4xf32, #none>", "`#none` is not defined", 37),
        ("%x = tt.p %a : i32 -> tensor<?xf32>", "expected sizes known at compile time", 30),
        ("tt.x %a loc(#nowhere)", "location `#nowhere` is not defined", 13),
        ("tt.x (%a]", "`]` closes nothing", 9),
        (
            "%r = scf.for %i = %a to %a step %a iter_args(%x = %f) -> (f32) : i32 {\n}",
            "the loop carries 1 values, yields 0 and gives 1",
            6,
        ),
        (
            "%r = scf.for %i = %a to %a step %a iter_args(%x = %f) -> () : i32 {\n}",
            "1 values are carried, but 0 types are given",
            6,
        ),
    ],
)
def test_mistakes_are_found_at_their_place(body: str, message: str, column: int) -> None:
    with pytest.raises(TwillError) as caught:
        loops(module(body))
    assert caught.value.message == message
    assert caught.value.location is not None
    assert caught.value.location.column == column
    assert caught.value.text is not None


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "\0", '"', "#loc = loc(", "module {", "%x", "{-#"])
def test_what_is_no_module(text: str) -> None:
    with pytest.raises(TwillError) as caught:
        read(text, "f")
    assert caught.value.location is not None


def test_types_can_have_names() -> None:
    layout = "#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    text = f"{layout}\n!f = f16\n!t = tensor<128xf16, #b>\n"
    found = read(
        f"{text}tt.func @k(%t: !t, %f: !f) {{\n  %x = arith.addf %t, %t : !t\n  tt.return\n}}", "f"
    ).functions[0]
    assert found.args[0].type == next(found.walk()).result.type
    assert isinstance(found.args[0].type, ir.Tensor)
    assert found.args[1].type == ir.Scalar("f16")
    with pytest.raises(TwillError, match="levels deep"):
        read("!a = !a\n", "f")


SUBTILED = """
    %r = ttng.subtiled_region inputs(%t, %a : tensor<64x64xf32, #blocked>, i32)
        tile_mappings = [array<i32: 0>, array<i32: 1>] barrier_annotations = [] {n = 1 : i32}
      setup {
        %c = arith.constant 0 : i32
        ttng.subtiled_region_yield %c, %a : i32, i32
      } tile(%x: i32) {
        %c = arith.addi %x, %x : i32
        ttng.subtiled_region_yield
      } teardown(%y: i32) {
        ttng.subtiled_region_yield %y : i32
      } -> (i32)
    tt.x %r : i32"""


def test_subtiled_regions() -> None:
    found = op(SUBTILED, "ttng.subtiled_region")
    assert [value.name for value in found.operands] == ["%t", "%a"]
    assert [len(region.blocks[0].ops) for region in found.regions] == [2, 2, 1]
    assert found.result.type == ir.Scalar("i32")
    assert found.attributes["n"] == 1


def test_nested_modules_count_for_the_file() -> None:
    inner = 'module attributes {"ttg.num-ctas" = 2 : i32} {\n tt.func @k() {\n tt.return\n }\n }'
    text = f'module attributes {{"ttg.num-warps" = 8 : i32}} {{\n{inner}\n}}'
    found = read(text, "f")
    assert (found.num_warps, found.num_ctas, len(found.functions)) == (8, 2, 1)


def test_only_one_module() -> None:
    with pytest.raises(TwillError, match="a second module begins here"):
        read("module {\n}\nmodule {\n}\n", "f")
