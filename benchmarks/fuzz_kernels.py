"""Random kernels, generated with random options: each is right, or refused with a reason.

    python benchmarks/fuzz_kernels.py --arch sm90 --first 1 --count 20 --out wrong/

Each seed writes a Triton kernel: how operands are loaded, which loop is around the dot, what the loop does
with it, how results leave; and draws options of `twill codegen`. The kernel is checked as `twill codegen`
checks it (all orders of its groups, values), and then its PTX is executed on every small problem: loops of 0
to 4 iterations, ragged ends, once as late as possible and once in a random order. Takes seeds; prints what
each gave and keeps the kernel, its TTGIR and its CUDA where it is wrong; exit status 1 if one is.
"""

import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fuzz_parts import (
    BEFORE,
    BEHIND,
    BODIES,
    LEFT,
    LOOPS,
    POINTERS,
    RETURNS,
    RIGHT,
    SCALARS,
    STORES,
    TYPES,
    UNFIT,
)
from twill.diagnostics import DefectError, TwillError
from twill.emit.files import write
from twill.emulate.build import Build, Request, load, run, walks
from twill.emulate.build import wrong as differs
from twill.emulate.machine.cta import Meter
from twill.extract.frontend.triton import capture
from twill.generation.candidates import candidates
from twill.generation.generate import files, right
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.ir.search import Progress
from twill.simulate.check import GRIDS, Trial, on_a_grid_apart, trials
from twill.simulate.compare import Compared
from twill.warp.plan import Options as Lowering

INSTRUCTIONS = 400_000
"""Of warps, at most, for one kernel."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Triton kernel with what it is compiled with."""

    drawn: str
    text: str
    settings: Mapping[str, object]


def kernel(seed: int) -> Kernel:
    """The kernel of a seed."""
    draw = Random(seed)
    element = draw.choice(("fp16", "fp16", "fp16", "bf16", "tf32", "e4m3", "e5m2", "int8"))
    pointer, inner, depths = TYPES[element]
    bodies = [one for one in BODIES if one not in UNFIT.get(element, ())]
    left, loop, body = draw.choice([*LEFT]), draw.choice([*LOOPS]), draw.choice(bodies)
    way = draw.choice([*RIGHT])
    store, leave = draw.choice([*STORES]), draw.choice(RETURNS)
    warps = draw.choice((4, 4, 8))
    tile = {
        "BLOCK_M": draw.choice((16, 32, 64, 64, 128) if warps == 4 else (64, 128)),
        "BLOCK_N": draw.choice((16, 32, 64, 64, 128)),
        "BLOCK_K": draw.choice(depths),
    }
    divisible = ":16" if draw.random() < 0.7 or "descriptor" in (left, store) or "masked" not in way else ""
    settings = {
        **POINTERS,
        **dict.fromkeys("abv", pointer),
        **dict.fromkeys(SCALARS, f"i32{divisible}"),
        "taps": "i32",
        **tile,
        "num_warps": warps,
    }
    parts = (element, left, way, loop, body, store)
    named = f"{' / '.join(parts)} {tile} {warps} warps{divisible} {leave[:12]!r}"
    return Kernel(named, _text(settings, inner, element, (left, way, loop, body, store, leave)), settings)


def _text(settings: Mapping[str, object], inner: str, element: str, parts: Sequence[str]) -> str:
    left, way, loop, body, store, leave = parts
    constants = [f"{name}: tl.constexpr" for name in settings if name.startswith("BLOCK")]
    arguments = [name for name in settings if not name.startswith(("BLOCK", "num_"))]
    accumulator = "tl.int32" if element == "int8" else "tl.float32"
    code = "\n".join(("kk = k + ks", LEFT[left], RIGHT[way], BODIES[body])).replace("TYPE", inner)
    around = LOOPS[loop]
    depth = len(around.splitlines()[-1]) - len(around.splitlines()[-1].lstrip())
    deeper = depth + (4 if around.endswith(":") else 0)
    lines = [
        "row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N",
        *leave.splitlines(),
        "m, n, ks = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)",
        "cs, tall, wide = tl.arange(0, BLOCK_N), m < M, n < N",
        *_descriptors(left, way, store),
        "acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)",
        *BEFORE.get(body, "").splitlines(),
        *BEFORE.get(left, "").splitlines(),
        *around.splitlines(),
        *textwrap.indent(code, " " * deeper).splitlines(),
        *BEHIND.get(body, "").splitlines(),
        "at, inside = d + m[:, None] * N + n[None, :], tall[:, None] & wide[None, :]",
        *STORES[store].splitlines(),
    ]
    head = f"@triton.jit\ndef kernel({', '.join((*arguments, *constants))}):\n"
    text = head + textwrap.indent("\n".join(lines), "    ").replace("ACC", accumulator)
    return f"import triton\nimport triton.language as tl\n\n\n{text}\n"


def _descriptors(left: str, way: str, store: str) -> list[str]:
    made = (
        (left == "descriptor", "a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])"),
        (way == "transposed", "b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])"),
        (way == "straight", "c_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK_K, BLOCK_N])"),
        (
            store in ("descriptor", "two"),
            "d_desc = tl.make_tensor_descriptor(d, [M, N], [N, 1], [BLOCK_M, BLOCK_N])",
        ),
    )
    return [text for wanted, text in made if wanted]


def options(seed: int, arch: str) -> tuple[dict[str, object], Lowering]:
    """What is drawn besides the kernel: options of the problem, and of lowering."""
    draw = Random(f"options {seed}")
    problem: dict[str, object] = {
        "groups": draw.choice((None, None, 1, 2, 3)),
        "registers": draw.choice((None, None, None, 128, 224)),
        "shared": draw.choice((None, None, None, 60000, 108000)),
        "subtile": draw.choice((1, 1, 1, 2)),
        "persistent": draw.random() < 0.2,
        "polynomial_exp2": draw.random() < 0.2,
        "divide_waits": draw.choice((None, None, True, False)),
        "cross_group": draw.random() < 0.85,
    }
    on_hopper = arch == "sm90"
    lowering = Lowering(
        most=draw.choice((8, 8, 2, 1)),
        blocks=draw.choice((None, None, 1)),
        cluster=2 if on_hopper and draw.random() < 0.1 else 1,
        pairs=not on_hopper and draw.random() < 0.1,
        alternate=draw.random() < 0.8,
        tiles=draw.choice((None, None, None, 2)) if problem["persistent"] else None,
    )
    return problem, lowering


def tried(seed: int, arch: str, seconds: float, keep: Path) -> str:
    """What a seed gives."""
    made, (problem, lowering) = kernel(seed), options(seed, arch)
    if "rivals" in made.drawn:  # atomics of different kinds have no order between thread blocks
        lowering = replace(lowering, cluster=1, pairs=False)
    source, ttgir = keep / "kernel.py", keep / "kernel.ttgir"
    source.write_text(made.text, encoding="utf-8")
    try:
        ttgir.write_text(capture(str(source), "kernel", arch, dict(made.settings)), encoding="utf-8")
    except TwillError as refused:
        return f"not compiled: {str(refused)[:200]}"
    plain = Inputs(str(ttgir), arch=arch)
    drawn = replace(plain, **problem)  # pyright: ignore[reportArgumentType]
    said = _generated(drawn, GenerateOptions(time_limit=seconds, lowering=lowering), keep)
    if not said.startswith("refused"):
        return said
    return f"{said}; plainly {_generated(plain, GenerateOptions(time_limit=seconds), keep)}"


def _generated(inputs: Inputs, wanted: GenerateOptions, keep: Path) -> str:
    """What the kernel gives with some options."""
    try:
        (one, *_) = candidates(inputs, wanted, silent)
    except DefectError as wrong:
        return f"WRONG, not generated: {wrong.message}"
    except TwillError as refused:
        return f"refused: {refused.message}"
    for name, text in files(one).items():
        write(keep / name, text())
    try:
        right((one,), wanted, silent)
        return _executed(one, keep)
    except TwillError as wrong:
        return f"WRONG: {wrong.message}"


def _executed(one: Generated, keep: Path) -> str:
    """The PTX on every small problem."""
    build, meter, done, values = load(keep), Meter(INSTRUCTIONS, lambda count: None), 0, 0
    for number, trial in enumerate(trials(one.program)):
        try:
            found = on_a_grid_apart(
                one.program,
                trial,
                GRIDS[0],
                partial(_run, one, build, trial, number % 2 * (number + 1), meter),
                lambda found: differs(build, found) is None,
            )
        except TwillError as problem:
            if "instructions" in problem.message and "budget" in type(problem).__name__.lower():
                return f"right in {done} runs, {values} values, then the budget was spent"
            raise TwillError(f"{problem.message} with {trial.shown}") from problem
        if different := differs(build, found):
            raise TwillError(
                f"the PTX computes a wrong {different.argument}: {different.error:.1e} with {trial.shown}"
            )
        done, values = done + 1, values + sum(one.values for one in found)
    return f"right in {done} runs, {values} values"


def _run(
    one: Generated, build: Build, trial: Trial, schedule: int, meter: Meter, grid: tuple[int, int, int]
) -> tuple[Compared, ...]:
    return run(build, _request(one, trial, grid, schedule), meter)


def _request(one: Generated, trial: Trial, grid: tuple[int, int, int], schedule: int) -> Request:
    if walks(one.program.function):
        return Request(trial.numbers, grid, schedule=schedule)
    x, y, z = (trial.grid[f"pid.{axis}"] for axis in "xyz")
    first = x // 2 * 2
    places = ((first, y, z), (first + 1, y, z)) if one.program.clustered else ((x, y, z),)
    width = first + 2 if one.program.clustered else trial.grid["grid.x"]
    return Request(
        trial.numbers, (width, trial.grid["grid.y"], trial.grid["grid.z"]), places, schedule=schedule
    )


def silent(name: str, event: Progress) -> None:
    """No progress is shown."""


def guarded(attempt: Callable[[], str]) -> str:
    """What an attempt says; that it crashed, where it raises something else than a TwillError."""
    try:
        return attempt()
    except Exception:  # a defect, whatever it is
        return f"WRONG, crashed: {traceback.format_exc()[-600:]}"


@click.command(help=__doc__)
@click.option("--arch", default="sm90", show_default=True)
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--count", default=10, show_default=True, help="Seeds.")
@click.option("--time-limit", default=8.0, show_default=True, help="Seconds for each search.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where wrong kernels stay.")
@click.option("--show", is_flag=True, help="Print the kernels, and stop.")
def main(arch: str, first: int, count: int, time_limit: float, out: Path | None, show: bool) -> None:
    wrong = 0
    for seed in range(first, first + count):
        if show:
            click.echo(f"# {kernel(seed).drawn}\n# {options(seed, arch)}\n{kernel(seed).text}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            said = guarded(lambda seed=seed, folder=folder: tried(seed, arch, time_limit, Path(folder)))
            click.echo(f"{seed}: {kernel(seed).drawn}\n    {said}")
            if "WRONG" in said:
                wrong += 1
                for file in Path(folder).iterdir() if out else ():
                    write(out / str(seed) / file.name, file.read_text(encoding="utf-8"))  # pyright: ignore
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
