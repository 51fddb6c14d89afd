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


def test_loads_that_go_alike_share_what_they_keep() -> None:
    """Two tiles of the same shape: where a thread's copies go in a slot, and its columns."""
    text = cuda("sieved")
    computed = re.findall(r"kept_\w+?_((?:to|at\d)\[0\]) = ([^;]+);", text)
    assert computed
    assert set(Counter(computed).values()) == {1}


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


def test_remainders_of_64_bits_are_kept_in_32(tmp_path: Path) -> None:
    """By a number that was widened from as many: a thread keeps one for each row of which it loads."""
    text = Path("tests/kernels/ttgir/wrapped.sm90.ttgir").read_text()
    for line in text.splitlines():
        for begin, lines in WIDE.items():
            if line.lstrip().startswith(begin):
                rest = line.lstrip().removeprefix(begin).replace("xi32", "xi64")
                own = [one.replace("ROWS", "#ttg.slice<{dim = 1, parent = #blocked}>") for one in lines]
                text = text.replace(line, "\n".join(own) + rest)
    assert text.count("arith.remsi %m_wide, %left : tensor<128xi64") == 1
    (tmp_path / "kernel.ttgir").write_text(text)
    inputs = Inputs(str(tmp_path / "kernel.ttgir"), arch="sm90", subtile=1, persistent=False)
    made = generate(inputs, GenerateOptions(time_limit=10, execute=False))
    (count,) = re.findall(r"uint32_t kept_x_\w+?_at0\[(\d+)\] = \{\};", made.cuda)
    assert int(count) > 1
    assert re.search(r"uint64_t\(int64_t\(int32_t\(kept_x_\w+?_at0\[i_\]\)\)\) \* uint64_t", made.cuda)
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
