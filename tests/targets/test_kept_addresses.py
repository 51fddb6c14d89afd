"""What threads that copy keep from one iteration to the next."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.kernels.programs import changed, cuda, loops
from twill.emulate.check import check
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.targets.cuda.loads import kept_addresses
from twill.targets.hopper import source
from twill.warp.lean import lean
from twill.warp.plan import Options

READ = r"(?<!\w)kept_\w+_(?:to|at\d|inside)\b"
DECLARED = rf"uint(?:32|64)_t ({READ})"


def test_a_group_that_computes_keeps_the_addresses_that_it_loads_from() -> None:
    """But in a program that is to take few registers."""
    made = changed("pointers_16", Options(multistage=True))
    text = source(made)
    assert re.findall(DECLARED, text)
    assert not re.findall(READ, source(lean(made)))
    assert check(made, loops("pointers_16")[1], text, lambda what: None).values


@pytest.mark.parametrize("room", range(6))
def test_it_keeps_what_there_are_registers_for(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Nothing is read that is not declared."""
    monkeypatch.setattr(kept_addresses, "BESIDE", room)
    text = source(changed("pointers_16", Options(multistage=True)))
    declared = re.findall(DECLARED, text)
    assert set(re.findall(READ, text)) == set(declared)
    assert bool(declared) == (room > 0)


@pytest.mark.parametrize("costly", [0, kept_addresses.COSTLY])
def test_a_group_that_computes_divides_before_the_loop(monkeypatch: pytest.MonkeyPatch, costly: int) -> None:
    """Though it has no room for whole offsets."""
    monkeypatch.setattr(kept_addresses, "BESIDE", 2)
    monkeypatch.setattr(kept_addresses, "COSTLY", costly)
    made = changed("leftover", Options(multistage=True))
    text = source(made)
    copies = [line for line in text.splitlines() if "cp_async<16>(" in line]
    assert copies
    assert all(
        ("_at0[i_]" in one, "% M" in one or "% N" in one) == (costly > 0, costly == 0) for one in copies
    )
    assert check(made, loops("leftover")[1], text, lambda what: None).values


def test_one_warp_that_loads_divides_before_the_loop() -> None:
    """Numbers of rows that wrap around."""
    copies = [line for line in cuda("scaled").splitlines() if "cp_async<" in line or "from_ = " in line]
    assert any("kept_load_50_at0" in line for line in copies)
    assert not any("% M" in line for line in copies)


def test_loads_that_go_alike_share_what_they_keep() -> None:
    """Two tiles of the same shape: where a thread's copies go in a slot, and its columns."""
    text = cuda("sieved")
    computed = re.findall(r"kept_\w+?_((?:to|at\d)\[0\]) = ([^;]+);", text)
    assert computed
    assert set(Counter(computed).values()) == {1}


WINDOW = """
import triton
import triton.language as tl

ARGUMENTS = {**dict.fromkeys("abw", "*fp16:16"), "begins": "*i32:16", "c": "*fp32:16", "n": "i32"}
TWILL = {"window": ARGUMENTS}

@triton.jit
def window(a, b, w, begins, c, n):
    m, k = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64)
    x = tl.load(a + m[:, None] * 64 + k[None, :])
    y = tl.load(b + k[:, None] * 64 + k[None, :])
    inside = k[None, :] >= tl.load(begins + m, mask=m < n, other=0)[:, None]
    weights = tl.load(w + m[:, None] * 64 + (63 - k[None, :]), mask=inside, other=0.0)
    product = (tl.dot(x, y) * weights).to(tl.float16)
    tl.store(c + m[:, None] * 64 + k[None, :], tl.dot(product, y))
"""


def test_one_iteration_packs_no_masks(tmp_path: Path) -> None:
    """Of accesses of two bytes: a condition for each, for which a row's number is loaded once, and no second
    form of them without."""
    (tmp_path / "window.py").write_text(WINDOW)
    given = Inputs(f"{tmp_path / 'window.py'}:window", arch="sm90")
    made = generate(given, GenerateOptions(lowering=Options(multistage=True), time_limit=10))
    assert re.search(r"bool kept_weights_\w*inside0\[\d+\];", made.cuda)
    assert not re.search(r"kept_weights_\w*(full|inside\[)", made.cuda)
    assert re.search(r"const auto number0_ = \(.*< \w+\) \? \*\(begins", made.cuda)
    assert made.checked


WIDE = {
    "%left = tt.splat %M : i32": ["%m64 = arith.extsi %M : i32 to i64", "%left = tt.splat %m64 : i64"],
    "%left_2 = arith.remsi %7": [
        "%m_wide = arith.extsi %7 : tensor<128xi32, ROWS> to tensor<128xi64, ROWS>",
        "%left_2 = arith.remsi %m_wide",
    ],
    "%left_3 = ": ["%left_3 = "],
    "%left_4 = tt.splat %a_stride : i32": [
        "%stride64 = arith.extsi %a_stride : i32 to i64",
        "%left_4 = tt.splat %stride64 : i64",
    ],
    "%left_5 = ": ["%left_5 = "],
    "%left_7 = ": ["%left_7 = "],
}
"""What begins the lines in which rows wrap around, and what does in 64 bits."""
WIDE_TOO = {
    "%x = tt.splat %M : i32": ["%m64 = arith.extsi %M : i32 to i64", "%x = tt.splat %m64 : i64"],
    "%x_12 = tt.splat %K : i32": ["%k64 = arith.extsi %K : i32 to i64", "%x_12 = tt.splat %k64 : i64"],
    "%acc_14 = tt.splat %N : i32": ["%n64 = arith.extsi %N : i32 to i64", "%acc_14 = tt.splat %n64 : i64"],
    "%x_18 = arith.remsi %row_10": [
        "%x_wide = arith.extsi %row_10 : tensor<64xi32, ROWS> to tensor<64xi64, ROWS>",
        "%x_18 = arith.remsi %x_wide",
    ],
    "%acc_30 = arith.remsi %4": [
        "%acc_wide = arith.extsi %4 : tensor<64xi32, ROWS> to tensor<64xi64, ROWS>",
        "%acc_30 = arith.remsi %acc_wide",
    ],
    **{f"%{one} = ": [f"%{one} = "] for one in ("x_19", "x_20", "x_21", "acc_31", "acc_32", "acc_33")},
}
"""The same of a kernel whose rows are copied asynchronously."""


def in_64_bits(kernel: str, lines: dict[str, list[str]], folder: Path) -> Inputs:
    """A kernel of which lines that begin so are others."""
    text = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir").read_text()
    for line in text.splitlines():
        for begin, others in lines.items():
            if line.lstrip().startswith(begin):
                rest = line.lstrip().removeprefix(begin).replace("xi32", "xi64")
                own = [one.replace("ROWS", "#ttg.slice<{dim = 1, parent = #blocked}>") for one in others]
                text = text.replace(line, "\n".join(own) + rest)
    (folder / "kernel.ttgir").write_text(text)
    return Inputs(str(folder / "kernel.ttgir"), arch="sm90", subtile=1, persistent=False)


def test_remainders_of_64_bits_are_kept_in_32(tmp_path: Path) -> None:
    """By a number that was widened from as many: a thread keeps one for each row of which it loads."""
    inputs = in_64_bits("wrapped", WIDE, tmp_path)
    assert (tmp_path / "kernel.ttgir").read_text().count("arith.remsi %m_wide, %left : tensor<128xi64") == 1
    made = generate(inputs, GenerateOptions(time_limit=10, execute=False))
    (count,) = re.findall(r"uint32_t kept_x_\w+?_at0\[(\d+)\] = \{\};", made.cuda)
    assert int(count) > 1
    assert re.search(r"wide_product\(int32_t\(kept_x_\w+?_at0\[i_\]\), int32_t\(\w+\)\)", made.cuda)
    assert made.checked


def test_a_group_that_computes_keeps_them_in_32_where_64_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept_addresses, "BESIDE", 6)
    options = GenerateOptions(time_limit=10, lowering=Options(multistage=True))
    made = generate(in_64_bits("leftover", WIDE_TOO, tmp_path), options)
    declared = re.findall(r"uint(\d+)_t (kept_\w+?_at0)\[(\d+)\]", made.cuda)
    assert {width for width, _, count in declared if int(count) > 1} == {"32"}
    assert re.search(r"wide_product\(int32_t\(kept_x_\w+?_at0\[i_\]\), int32_t\(\w+\)\)", made.cuda)
    assert made.checked


GOLDEN = sorted(Path(__file__).parent.glob("golden/*.cu"))
PLACE = r"const uint32_t row_ = ([^;]*);"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_is_kept_is_for_the_rows_and_chunks_of_the_copies_that_read_it(path: Path) -> None:
    """Two loads whose offsets read alike differ where their tiles have rows of different lengths."""
    place, computed = "", dict[str, str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        if found := re.search(PLACE, line):
            place = found[1]
        for name in re.findall(r"(kept_\w+_(?:to|at\d))\[\w+\] = ", line):
            computed[name] = place
        if "from_" in line:
            assert {computed[name] for name in re.findall(r"kept_\w+_(?:to|at\d)\b", line)} <= {place}, line
        if line.startswith("}"):
            computed.clear()


def test_rows_that_are_constants_apart_need_one_number() -> None:
    """Each copy adds a constant to it, as part of its instruction."""
    text = cuda("recounted")
    declared = dict(re.findall(r"uint32_t (kept_\w+_at\d)\[(\d+)\]", text))
    assert set(declared.values()) == {"1"}
    assert re.search(r"advanced\(from_, i_ \* \([^;a-z]*(?:u?int32_t[^;a-z]*)*\)\)", text)
