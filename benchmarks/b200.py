"""Writes reports/b200.md: the kernels generated for sm_100a, what nvcc says to them, what their PTX computes,
and the instructions of each group's steady state beside those that the schedule charges.

python benchmarks/b200.py [--instructions] [KERNEL ...]

With --instructions, the table of instructions alone is made again.

Needs nvcc and nvdisasm (CUDA toolkit or Triton); no GPU is used. The schedules are those kept with the tests.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tests.kernels.builds import build, numbers
from tests.kernels.double_precision import largest
from tests.kernels.programs import BLACKWELL, BRAIN, PAIRED, cuda, loops, program
from twill.emulate.build import Request, run, wrong
from twill.ir.graph import Work
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import MmaIssue, walk
from twill.launch.build import RUNTIME, gencode
from twill.launch.disassembly import tool
from twill.simulate.control import controlling
from twill.simulate.predict import allowed, predict

REPORT = Path("reports/b200.md")
LANES = {"sfu": 16, "fma": 128, "alu": 64}
"""Lanes of a unit (machines/b200.toml)."""
UNITS = {
    "sfu": r"MUFU",
    "fma": r"F(FMA|MUL|ADD)2?\b",
    "alu": r"(FMNMX|FSEL|FSETP|LOP3|IADD3?|SEL|PRMT|SHF\.|ISETP|LEA|F2F|F2FP|I2FP|IMNMX|VIADD)",
    "tcgen05": r"UTC\w*MMA",
    "tensor memory": r"(LDTM|STTM)",
    "waits": r"SYNCS\.PHASECHK",
    "barriers": r"BAR\.SYNC",
    "fences": r"FENCE\.",
    "shared": r"(LDS|STS)\b",
}
"""Opcodes of SASS, by what executes them."""
CALLS = {
    "barriers": ("named_barrier_sync(",),
    "fences": ("fence_async_shared(", "tensor_memory_wait_store(", "await_reads("),
}
"""Calls in the generated file that are one instruction each."""
ORDERS = 3
"""Of asynchronous operations, in which kernels are compared in float64: the latest, and random ones."""
TOLERATED = 1.1
"""Instructions executed for each that is charged, at most."""
HEAD = """# Kernels for Blackwell (sm_100a)

Made by `python benchmarks/b200.py`. There was no B200: no time here is measured. Each kernel is generated
from its joint schedule, simulated (values, interleavings, order of accesses to tensor memory), built by nvcc
for sm_100a, and its PTX is executed instruction by instruction with the hazards of tcgen05, the asynchronous
proxy and mbarriers checked (`twill emulate`). The interval is the schedule's; predicted is what the timed
simulation of the generated program takes, from the costs in machines/b200.toml, of which many are estimates.
Kernels whose names end in `pairs` are those of clusters of two thread blocks (`--pairs`), executed as such;
their schedules count half of B, which is what each block loads and keeps. `polynomial`: with
`--polynomial-exp2`.

TFLOP/s follow from the predicted cycles of the steady state of the first loop, at 148 SMs and 1.85 GHz, with
one thread block on each. In brackets: the least and the most where all estimates of machines/b200.toml
(`between`) are at their slow or fast ends, and those of each table alone at either end (`twill simulate
--ranges`). Of int8 kernels they are operations, not of floats. Spills are bytes, with those of stack frames;
those of the same source built for sm_103a are in the next column. MMAs of int8 do not exist there. nvcc and
ptxas warn of none. Warps are those of each group.

Errors are relative. The first is that of one tile, to a direct execution of the TTGIR. That in float64 is the
largest of two shapes with several tiles, ragged ones among them, to what the kernel is to compute in float64
from its operands as they lie in memory, with asynchronous operations as late as possible and in two random
orders (tests/kernels/double_precision.py): what is left is the rounding of the result, and of weights, to
their types. Where it is missing, a test compares the kernel with the TTGIR alone, at ragged ends too.

| kernel | warps | interval | predicted | TFLOP/s | registers | spills | sm_103a | error | float64 | hazards |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
FIGURES = (
    (
        "attention forward, 128 wide",
        "1535 at 8192 keys, 1613 at best",
        "FlashAttention-4, pairs of blocks",
        ("fa_fwd_subtiled", "fa_fwd_subtiled_pairs", "fa_fwd_subtiled_polynomial"),
    ),
    ("the same, causal", "1418 at 8192 keys", "FlashAttention-4", ("fa_fwd_causal",)),
    (
        "attention backward, 128 wide",
        "1248 (1118 causal), in pairs 1360 (1209)",
        "FlashAttention-4",
        ("fa_bwd", "fa_bwd_subtiled"),
    ),
    (
        "GEMM of 16384 x 6144 x 4096, 16 bits",
        "1513 (bf16)",
        "cuBLAS, vllm-project/vllm#19566",
        ("gemm_persistent", "gemm_persistent_pairs"),
    ),
    (
        "the same, e4m3",
        "2545",
        "CUTLASS, vllm-project/vllm#19566",
        ("matmul_e4m3", "matmul_e4m3_pairs"),
    ),
)
"""TFLOP/s on a B200 that others publish: of what, how much, who, and the kernels here that do the same."""
PUBLISHED = """
## Beside published figures

TFLOP/s that others have measured on a B200, of whole kernels. The predictions are of steady states: without
prologue, epilogue, the last wave of blocks and the clock that the power limit leaves, all of which a
measurement has. At 148 SMs and 1.85 GHz the tensor core's limit is 2243 for 16 bits, 4486 for 8.

| | published | source | predicted here |
| --- | --- | --- | --- |
{rows}

What a GEMM's interval leaves open is how many bytes a cycle L2 gives one SM when all of them load, 64 to 170
in the machine file: a block of 128 x 256 needs 96 to keep its tensor core busy, one of 128 x 128 needs 128, a
block of a pair, which loads half of B, 64 where it has 128 x 256. Scale factors of B are needed whole by both
blocks of a pair: half is loaded by each and multicast, which the intervals do not count, since an SM receives
as many bytes as without. L2 is read half as often. On an H200, multicast left the cycles of GEMMs with tiles
of 128 x 128 and more as they were (reports/h200.md).
"""
SECOND = """
## Instructions of the steady state

SASS instructions of one warp in one iteration of the loop, by the unit that executes them, for the groups
that compute; in parentheses what the schedule charges on that unit (cycles x lanes / threads), with what is
charged on the ALU for the waits, the channels and the loop of its program (`[control]`, docs/costs.md), and
the instructions of 128 x 256 x 32 bytes that the group's MMAs are. What ptxas moves out of the loop is not
counted, nor is the second try of a wait. Of waits on mbarriers, barriers of a group and fences (for the
async proxy, and waits for stores to tensor memory) the program's own number is in parentheses. An FADD2,
FMUL2 or FFMA2, which computes two elements in one instruction, counts for two on its unit, and for one among
all. What one warp of a group executes alone, such as a wait before it issues an MMA, counts on these units as
an average.
The rows are of one run with one version of the code. None is more than a tenth above what is in parentheses
(`benchmarks/b200.py` fails where one is). `straight` and `resumed` have none: their first loops have as many
iterations as stages, so that ptxas leaves no steady state.

| kernel | group | {units} | all |
| --- | --- |{lines} --- |"""
TAIL = """
Of kernels with several loops the first is counted. Warps of their own issue the MMAs of groups that compute,
where warps are free. What is left: each wait that is passed costs 55 cycles here, a number taken over from
sm_90, and MMAs that other warps issue are handed over by barriers which a schedule does not count. Loops are
therefore also scheduled with the costs of hand-offs (`choices/hand_offs.py`), and the program that is
predicted to be fastest is kept: those of fa_fwd and fa_bwd_subtiled are such, while fa_fwd_causal is faster
with updates of accumulators in a group of their own. Threads arrive behind a load from tensor memory when it
is complete, and an interval is no shorter than shared memory and issue slots allow for ever. The groups that
share the exponential unit keep their distance by dependences alone: ordering barriers around the exponentials
(as for the tensor core on sm_90) changed nothing in the kept schedules of attention, since its groups already
follow each other there.

Accumulators that are rescaled are loaded 16 columns at a time: while a chunk is loaded, the one before is
multiplied and stored. A tile that is reduced is loaded 32 columns at a time, and `tcgen05.wait::ld` is no
instruction of its own: ptxas lets the maxima of the first chunk (fa_fwd_subtiled, 13 of 66) wait for its
load alone, and the others for the last load, which it issues behind them. The prediction lets each chunk
follow its load, as the schedule does. The multiplications of rescaling are counted, which a warp skips where
no maximum grows.

What controls a loop is charged by rule: 3 ALU instructions for the counter, 1 for a wait (its parity), 4 for
a channel of several slots (slot and phase), 3 for a tile whose rescaling a warp may skip. These are the
smallest numbers that suffice for every group here; fewer are executed where phases are computed on the
uniform unit, as in fa_bwd. Maxima are charged an instruction for each element, of which FMNMX3 takes two:
that is why groups with softmax execute less than is charged. The predictions count all of it; none of those
above is longer for it.

fa_fwd, with one tile of 128 rows, is scheduled with the costs of hand-offs. One group computes all that
follows from the scores, one operation behind the other: 341 cycles for its wait for the scores and the load
of their first columns, 256 for the maxima, 43 for one-row operations on them, 128 to scale, 1024 for
exponentials, 128 for their sums, and 183 for a second wait and the store of the weights, 2103 in all. Without
these costs 1322 are enough (1235 in pairs), where a group that loads scores passes a tile of them on to one
that computes exponentials. That program is predicted to take 2701 cycles (2503): the tile goes through one
slot of 64 KB, for which the threads of both groups are held 512 cycles each, and which is released when all
of it is read. Two tiles (fa_fwd_subtiled), which overlap, are the faster form.

Clusters of two (`--pairs`) are refused for three kernels. In fa_bwd the queries, and the gradients of the
results, would be B, the same in both blocks, and a block's own keys and values A; but the gradient of the
queries is a sum over the keys of both blocks. It would pay: shared memory takes 3344 cycles of an iteration
here (operands of MMAs 2048, the gradient of the queries 1024, the scores' gradients 256), and the tensor core
2560. With half of B and half of that gradient for each block it would take about 2300 and the exchange, so
that the tensor core would limit the loop. A kernel has one `.cta_group` in all its tcgen05 instructions (PTX
ISA), so that this MMA can not stay one of a single block. What a rule for it needs, which is not generated:

1. An MMA whose K differs between the blocks (here keys) becomes one of 128 rows of both, with twice the K:
   of the result each block has 64 rows, columns 64 and up in lanes 64 and up (PTX ISA, data path layout
   B). Loads from tensor memory, the layout of the tile in TTGIR and the box and row of its store change
   with it.
2. Its A, computed in registers (the scores' gradients), is exchanged: a slot has 64 of the queries and the
   keys of both blocks, of which each block's threads write half to each block, and its full barrier lies
   in the first block. tests/emulate/exchange.cu has that by hand, executed with its hazards.
3. Its B (the keys) is needed with all keys of both blocks and half of the columns, and as A of the scores
   with all columns of a block's own: two tiles from two loads, whose coordinates are those of both
   programs.
4. A tile that is B of two MMAs along different axes (the queries: transposed for the scores, as it lies
   for the gradient of the keys) is halved along both: two loads of half a tile each, no shared memory
   saved.
5. The model charges the stores to the other block, and halves what is read of B and stored of the result.

In fa_fwd_causal the blocks of a pair have different numbers of iterations. A pair would wait for the longer
one and win nothing: the interval of fa_fwd_subtiled is 2308 in pairs too, which exponentials and the tensor
core set and not B, and 2705 cycles are predicted of it alone, 2696 in pairs. FlashAttention-4 computes causal
attention in single blocks too. fa_bwd_subtiled has tiles of 64 rows.

With `--polynomial-exp2` the search has five forms of a loop to schedule. The values are as accurate as those
of the instruction (1.17 ulp; CUDA documents 2 for `exp2f`), but not the same bits, so it is off unless given.
4-bit floats beside 8-bit ones (matmul_mxfp8_mxfp4) take a byte each in shared memory, of which half is
padding that TMA leaves: a block loads half the bytes of 8-bit ones, and its MMAs are no faster.
"""


@dataclass(frozen=True, slots=True)
class Built:
    """What nvcc made of a kernel."""

    registers: int
    spills: int
    sass: str
    other_spills: int | None
    """For sm_103a; None where ptxas refuses it."""


def built(kernel: str, folder: Path) -> Built:
    cubin, done = folder / "kernel.cubin", compiled(kernel, "sm100", folder)
    registers = max(map(int, re.findall(r"Used (\d+) registers", done.stderr)))
    sass = disassembled(cubin)
    other = compiled(kernel, "sm103", folder)
    assert "warning" not in done.stderr + other.stderr, f"{kernel}: {done.stderr}{other.stderr}"
    return Built(registers, spills(done.stderr), sass, None if other.returncode else spills(other.stderr))


def disassembled(cubin: Path) -> str:
    """SASS with the lines of the source."""
    disassembler = tool("nvdisasm")
    assert disassembler
    return subprocess.run(
        [disassembler, "-gi", "-c", cubin], capture_output=True, text=True, check=True
    ).stdout


def compiled(kernel: str, arch: str, folder: Path) -> subprocess.CompletedProcess[str]:
    source, cubin = folder / "kernel.cu", folder / "kernel.cubin"
    source.write_text(cuda(kernel))
    flags = ["-std=c++17", "-O3", "-lineinfo", gencode(arch), "-Xptxas", "-v", f"-I{RUNTIME}", "-cubin"]
    return subprocess.run(["nvcc", *flags, "-o", cubin, source], capture_output=True, text=True)


def spills(text: str) -> int:
    """Bytes that ptxas spills, and of stack frames, as it says."""
    return sum(map(int, re.findall(r"(\d+) bytes (?:spill stores|stack frame)", text)))


def steady_lines(text: str, group: int) -> range:
    """Lines of the generated file with the steady state of a group."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if f"// ---- group {group}:" in line)
    begin = next(
        (
            i
            for i in range(first, len(lines))
            if re.search(r"for \(int32_t i = \d+; i < n; \+\+i\) \{", lines[i])
        ),
        len(lines),
    )
    indent = len(lines[begin]) - len(lines[begin].lstrip()) if begin < len(lines) else 0
    end = next((i for i in range(begin + 1, len(lines)) if lines[i] == " " * indent + "}"), begin)
    return range(begin + 1, end + 2)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One of SASS."""

    opcode: str
    line: int
    """Of the generated file."""
    target: int | None
    """Of a branch: the number of the instruction behind its label."""


def instructions(sass: str) -> list[Instruction]:
    found, labels, line = list[tuple[str, int, str]](), dict[str, int](), 0
    for text in sass.splitlines():
        if at := re.search(r'//## File "[^"]*kernel\.cu", line (\d+)', text):
            line = int(at[1])
        elif label := re.match(r"(\.L_x_\d+):", text):
            labels[label[1]] = len(found)
        elif one := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)", text):
            to = re.search(r"\((\.L_x_\d+)\)", one[2]) if one[1].startswith("BRA") else None
            found.append((one[1], line, to[1] if to else ""))
    return [Instruction(name, line, labels.get(to)) for name, line, to in found]


def executed(sass: str, inside: range) -> list[Instruction]:
    """Instructions of the loop that some lines of the generated file are. What ptxas has moved out of it, and
    the second try of a wait, which lies behind the kernel's end, are not among them."""
    every = instructions(sass)
    own = [one.line in inside for one in every]
    loops = [range(one.target, i + 1) for i, one in enumerate(every) if one.target is not None]
    longest = max(loops, key=lambda loop: sum(1 if own[i] else -1 for i in loop), default=range(0))
    return [every[i] for i in longest if own[i]]


def alone(text: str, inside: range) -> frozenset[int]:
    """Lines of the generated file that one warp of a group executes: those behind a condition on its number,
    and of the blocks that such a condition begins."""
    lines, found, until = text.splitlines(), set[int](), ""
    for number in inside:
        line = lines[number - 1]
        if until or "thread.warp == 0" in line:
            found.add(number)
        if not until and "thread.warp == 0" in line and line.endswith("{"):
            until = line[: len(line) - len(line.lstrip())] + "}"
        elif line == until:
            until = ""
    return frozenset(found)


def computed(unit: str, found: Sequence[Instruction], apart: Set[int], warps: int) -> float:
    """Elements of a thread that a unit computes, on an average of the group's warps."""
    return sum(
        elements(one.opcode) / (warps if one.line in apart else 1)
        for one in found
        if re.match(UNITS[unit], one.opcode)
    )


def elements(opcode: str) -> int:
    """That each thread computes: two of FADD2, FMUL2 and FFMA2."""
    return 2 if re.match(r"F(FMA|MUL|ADD)2\b", opcode) else 1


def charged(kernel: str, made: Program, group: WarpProgram) -> Counter[str]:
    """Instructions of one warp that the schedule of a kernel's first loop charges."""
    found = Counter[str]()
    for one in loops(kernel)[1][:1]:
        for op in one.problem.operations:
            if one.group(op.id) == group.id:
                for r in op.reservations:
                    if r.unit in LANES:
                        found[r.unit] += round(r.cycles * LANES[r.unit] / (32 * group.warps))
    return found


def controls(kernel: str, made: Program, group: WarpProgram) -> int:
    """ALU instructions of one warp beside operations that are counted for the steady state of a kernel's
    first loop."""
    one = loops(kernel)[1][0]
    assert one.machine.control
    return round(controlling(made, group, one).instructions(one.machine.control, group.warps))


def counts(kernel: str, made: Program, group: WarpProgram, text: str, inside: range) -> dict[str, int]:
    """Instructions of one warp that are no elements: MMAs, waits, barriers and fences of the program."""
    control = controlling(made, group, loops(kernel)[1][0])
    lines = text.splitlines()[inside.start - 1 : inside.stop - 1]
    called = {
        unit: sum(line.count(call) for line in lines for call in calls) for unit, calls in CALLS.items()
    }
    return {"tcgen05": multiplied(kernel, group), "waits": control.waits + control.issuing, **called}


LARGEST = 128, 256, 32
"""Rows and columns of one tcgen05.mma of a thread block, and bytes of K."""


def multiplied(kernel: str, group: WarpProgram) -> int:
    """Instructions of tcgen05.mma that the MMAs of a group in a kernel's first loop are, by their shapes."""
    one, (rows, columns, depth) = loops(kernel)[1][0], LARGEST
    issued = {it.node for it in walk(group.body) if isinstance(it, MmaIssue)}
    works = (work for node in one.graph.nodes if node.id in issued for work in node.work if work.mnk)
    return sum(
        -(-work.mnk[0] // rows) * -(-work.mnk[1] // columns) * work.mnk[2] * width(work) // (8 * depth)
        for work in works
        if work.mnk
    )


def width(work: Work) -> int:
    """Bits of an element of K: of the wider operand."""
    return max(int(re.sub(r"\D*(\d+).*", r"\1", tile.dtype)) for tile in work.inputs[:2])


SMS, CLOCK = 148, 1.85e9
"""At which rates are stated, as published figures are."""


def rates(kernel: str, made: Program) -> str:
    """TFLOP/s of the steady state of the first loop, with the least and the most that estimates allow."""
    scheduled = loops(kernel)[1]
    first = scheduled[0]
    flops = sum(2 * prod(work.mnk) for node in first.graph.nodes for work in node.work if work.mnk)
    fastest, slowest = allowed(made, scheduled)[first.loop.path]
    nominal = predict(made, scheduled).loops[first.loop.path].interval
    at, least, most = (f"{flops / cycles * SMS * CLOCK / 1e12:.0f}" for cycles in (nominal, slowest, fastest))
    return f"{at} ({least} to {most})"


def rows(kernel: str) -> tuple[str, list[str]]:
    """A row of the first table, and those of the second."""
    with tempfile.TemporaryDirectory() as folder:
        one = built(kernel, Path(folder))
    return what_became(kernel, one), counted(kernel, one.sass)


def what_became(kernel: str, one: Built) -> str:
    """A row of the first table."""
    made = program(kernel)
    names = {arg.name.lstrip("%") for arg in made.function.args}
    given = numbers(kernel) | ({"M": 256} if made.pairs else {})
    grid = (2 if made.pairs else 1, 1, 1)
    request = Request({name: value for name, value in given.items() if name in names}, grid)
    compared = run(build(kernel), request)
    problem = wrong(build(kernel), compared)
    error = max(result.error for result in compared)
    exact = largest(kernel, ORDERS)
    timed = predict(made, loops(kernel)[1]).loops
    intervals = ", ".join(str(one.solution.interval) for one in loops(kernel)[1])
    predicted = ", ".join(f"{found.interval:.0f}" for found in timed.values())
    groups = ", ".join(str(group.warps) for group in made.groups)
    return (
        f"| {kernel.removesuffix('.sm100')} | {groups} | {intervals} | {predicted} | {rates(kernel, made)} |"
        f" {one.registers} | {one.spills} | {'no' if one.other_spills is None else one.other_spills} |"
        f" {error:.0e}{f' {problem}' if problem else ''} | {'' if exact is None else f'{exact:.0e}'} | none |"
    )


def counted(kernel: str, sass: str) -> list[str]:
    """The rows of the second table."""
    made, text, found = program(kernel), cuda(kernel), list[str]()
    for group in made.groups:
        inside = steady_lines(text, group.id)
        steady, schedule = executed(sass, inside), charged(kernel, made, group)
        if not steady:  # as many iterations as stages: ptxas leaves no loop
            continue
        if not schedule and not any(re.match(UNITS["tcgen05"], each.opcode) for each in steady):
            continue
        apart, more = alone(text, inside), {"alu": controls(kernel, made, group)}
        own = counts(kernel, made, group, text, inside)
        shown = " | ".join(
            f"{computed(unit, steady, apart, group.warps):.0f} ({schedule[unit] + more.get(unit, 0)})"
            if unit in LANES
            else str(sum(bool(re.match(pattern, each.opcode)) for each in steady))
            + (f" ({own[unit]})" if unit in own else "")
            for unit, pattern in UNITS.items()
        )
        found.append(f"| {kernel.removesuffix('.sm100')} | {group.id} | {shown} | {len(steady)} |")
    return found


def counted_anew(kernel: str) -> list[str]:
    """The rows of the second table, of what is built for them."""
    with tempfile.TemporaryDirectory() as folder:
        done = compiled(kernel, "sm100", Path(folder))
        done.check_returncode()
        return counted(kernel, disassembled(Path(folder) / "kernel.cubin"))


def main(arguments: Sequence[str]) -> None:
    """All kernels, or those named; rows of the others stay as they are in the report."""
    only = "--instructions" in arguments
    names = [one for one in arguments if one != "--instructions"]
    kept = REPORT.read_text(encoding="utf-8").splitlines() if names or only else []
    made = list[tuple[str, list[str]]]()
    for kernel in (*BLACKWELL, *BRAIN, *PAIRED):
        old = before(kept, kernel.removesuffix(".sm100"))
        if names and kernel.removesuffix(".sm100") not in names:
            made.append(old)
        else:
            made.append((old[0], counted_anew(kernel)) if only else rows(kernel))
    second = SECOND.format(units=" | ".join(UNITS), lines=" --- |" * len(UNITS))
    first, counted_rows = [row for row, _ in made if row], [row for _, more in made for row in more]
    text = [HEAD, *first, published(first), second, *counted_rows, TAIL]
    REPORT.write_text("\n".join(text), encoding="utf-8")
    if above := [row for row in counted_rows if beyond(row)]:
        sys.exit("\n".join(["more than a tenth above what is in parentheses:", *above]))


def published(first: Sequence[str]) -> str:
    """The part with published figures, from the rows of the first table."""
    cells = {row.split(" | ")[0].strip("| "): row.split(" | ") for row in first}
    rows = (
        f"| {what} | {figure} | {source} | {', '.join(f'{name} {cells[name][4]}' for name in kernels)} |"
        for what, figure, source, kernels in FIGURES
    )
    return PUBLISHED.format(rows="\n".join(rows)).rstrip()


def beyond(row: str) -> bool:
    """Whether some number of the second table is more than tolerated above the one in parentheses."""
    pairs = re.findall(r"(\d+) \((\d+)\)", row)
    return any(int(found) > TOLERATED * int(own) for found, own in pairs)


def before(kept: Sequence[str], name: str) -> tuple[str, list[str]]:
    """A kernel's rows in the report as it is; empty where it has none."""
    found = [line for line in kept if line.startswith(f"| {name} |")]
    at = next((i for i, line in enumerate(kept) if line.startswith("## ")), 0)
    early = [line for line in kept[:at] if line in found]
    return (early[0] if early else ""), found[len(early) :]


if __name__ == "__main__":
    main(sys.argv[1:])
