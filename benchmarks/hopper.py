# pyright: basic
"""The examples on a Hopper GPU, beside cuBLAS, cuDNN and Triton: reports/h200.md with its plot.

    python benchmarks/hopper.py generate build/  # anywhere: CUDA of every kernel from reports/schedules
    python benchmarks/hopper.py measure build/  # with a GPU: builds, measures, writes build/hopper.json
    python benchmarks/hopper.py sanitize build/  # with a GPU: compute-sanitizer on small shapes
    python benchmarks/hopper.py report build/  # anywhere: reports/h200.md, h200.json and docs/images/h200.svg
    python benchmarks/hopper.py report build/ --out reports/h100.md  # the same of another GPU

Measuring is `twill bench` (`twill.bench`). The report keeps what stands in reports/h200.md from its second
heading on.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from textwrap import fill
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measure import table
from twill.bench import profile_target as once
from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.extract.frontend.arguments import from_text
from twill.generation.generate import files, generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.launch import build
from twill.warp.plan import Options

SCHEDULE = ".schedule.json"
LIBRARIES = ("cublas", "cublas_rows", "cudnn", "fa3", "flex")
ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "reports" / "schedules"
"""The schedules that were measured."""
RESULTS, REPORT, PLOTS = "hopper.json", ROOT / "reports" / "h200.md", ROOT / "docs" / "images"


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel of examples/kernels.py with settings."""

    kernel: str
    settings: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    """By peer, how many times as fast the generated kernel must be."""
    small: tuple[Mapping[str, int], ...] = ({"M": 384, "N": 768, "K": 320},)
    """Shapes for compute-sanitizer."""
    persistent: bool = False
    dynamic: bool | None = None
    """Whether thread blocks claim tiles; None: where these are unequal."""
    divide_waits: bool | None = None
    cluster: int = 1
    """Thread blocks that share loads; not among the kernels that are measured where none is named."""
    independent: bool | None = None
    """Whether warpgroups store tiles by themselves; None: where that is predicted to be faster."""
    like: str = ""
    """The variant whose schedules it has; empty: its own."""
    tile: tuple[str, int] | None = None
    """A size that is no power of two."""
    shapes: tuple[Mapping[str, int], ...] = ()
    """What is measured; empty: the shapes of the kernel's file."""

    @property
    def inputs(self) -> Inputs:
        return Inputs(
            f"examples/kernels.py:{self.kernel}",
            arch="sm90",
            settings=tuple(self.settings.items()),
            tile=self.tile,
            persistent=self.persistent,
            divide_waits=self.divide_waits,
        )


FP8 = {"a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "BLOCK_K": "128"}
BF16 = dict.fromkeys("abc", "*bf16:16")
ONE_WARPGROUP = {"num_warps": "4"}
SQUARE = {"BLOCK_N": "128", **ONE_WARPGROUP}
"""Tiles of 128 x 128 for one warpgroup, of which two are in flight."""
WIDE = {"BLOCK_M": "64", **ONE_WARPGROUP, "GROUP": "16"}
"""The same of 64 x 256, with as many rows to a group of tiles."""
COLUMNS = ("BLOCK_N", 192)
"""Of tiles of 128 rows for one warpgroup, of which two are in flight."""
ROWS = ({"heads": 2, "length": 384},)
LENGTHS_192 = tuple({"length": 4224 << step} for step in range(3))
"""Multiples of 192 keys."""
HEADS_256 = {**dict.fromkeys("qkvo", "*bf16:16"), "HEAD_DIM": "256", "BLOCK_N": "64"}

VARIANTS = {
    "gemm": Variant("gemm"),
    "gemm.persistent": Variant("gemm", {}, {"cublas": 0.97}, persistent=True),
    "gemm_persistent": Variant("gemm_persistent", {}, {"cublas": 0.97}),
    "gemm_persistent.bf16": Variant("gemm_persistent", BF16, {"cublas": 0.97}),
    "gemm_persistent.fp8": Variant("gemm_persistent", FP8, {"cublas": 0.97}),
    "gemm_persistent.two_tiles": Variant("gemm_persistent", WIDE, {"cublas": 0.97}),
    "gemm_persistent.fp8_two_tiles": Variant("gemm_persistent", {**FP8, **SQUARE}, {"cublas": 0.97}),
    "gemm_persistent.fp8_wide": Variant("gemm_persistent", {**FP8, **WIDE, "GROUP": "32"}, {"cublas": 0.97}),
    "gemm_persistent.tile_192": Variant("gemm_persistent", ONE_WARPGROUP, {"cublas": 0.97}, tile=COLUMNS),
    "gemm_persistent.bf16_tile_192": Variant(
        "gemm_persistent", {**BF16, **ONE_WARPGROUP}, {"cublas": 0.97}, tile=COLUMNS
    ),
    "gemm_persistent.fp8_tile_192": Variant(
        "gemm_persistent", {**FP8, **ONE_WARPGROUP, "GROUP": "16"}, {"cublas": 0.97}, tile=COLUMNS
    ),
    "gemm_persistent.together": Variant("gemm_persistent", independent=False, like="gemm_persistent"),
    "gemm_persistent.16_rows": Variant("gemm_persistent", {"GROUP": "16"}, like="gemm_persistent"),
    "gemm_persistent.fp8_together": Variant(
        "gemm_persistent", FP8, independent=False, like="gemm_persistent.fp8"
    ),
    "gemm_persistent.fp8_16_rows": Variant(
        "gemm_persistent", {**FP8, "GROUP": "16"}, like="gemm_persistent.fp8"
    ),
    "gemm_persistent.cluster": Variant("gemm_persistent", cluster=2, like="gemm_persistent"),
    "gemm_persistent.fp8_16_rows.cluster": Variant(
        "gemm_persistent", {**FP8, "GROUP": "16"}, cluster=2, like="gemm_persistent.fp8"
    ),
    "gemm_persistent.two_tiles.cluster": Variant(
        "gemm_persistent", WIDE, cluster=2, like="gemm_persistent.two_tiles"
    ),
    "gemm_persistent.fp8_two_tiles.cluster": Variant(
        "gemm_persistent", {**FP8, **SQUARE}, cluster=2, like="gemm_persistent.fp8_two_tiles"
    ),
    "dual_gemm": Variant("dual_gemm", {}, {"cublas": 0.95}),
    "dual_gemm.persistent": Variant("dual_gemm", {}, {"cublas": 0.95}, persistent=True),
    "dual_gemm.together": Variant(
        "dual_gemm", persistent=True, independent=False, like="dual_gemm.persistent"
    ),
    "gemm_reduction": Variant("gemm_reduction", {}, {"cublas": 0.95}),
    "gemm_reduction.persistent": Variant("gemm_reduction", {}, {"cublas": 0.95}, persistent=True),
    "fa_fwd": Variant("fa_fwd", small=ROWS),
    "fa_fwd.persistent": Variant("fa_fwd", small=ROWS, persistent=True),
    "fa_fwd_subtiled": Variant("fa_fwd_subtiled", {}, {"cudnn": 1.0, "triton": 1.15}, ROWS),
    "fa_fwd_subtiled.undivided": Variant("fa_fwd_subtiled", {}, {"cudnn": 1.0}, ROWS, divide_waits=False),
    "fa_fwd_subtiled.persistent": Variant("fa_fwd_subtiled", {}, {"cudnn": 1.0}, ROWS, persistent=True),
    "fa_fwd_subtiled.heads_64": Variant(
        "fa_fwd_subtiled",
        {"HEAD_DIM": "64"},
        {"cudnn": 1.0},
        ROWS,
        persistent=True,
        tile=COLUMNS,
        shapes=LENGTHS_192,
    ),
    "fa_fwd.heads_256": Variant("fa_fwd", HEADS_256, {"cudnn": 1.0}, ROWS, persistent=True),
    "fa_fwd_causal": Variant("fa_fwd_causal", {}, {"cudnn": 0.95}, ROWS),
    "fa_fwd_causal.dynamic": Variant("fa_fwd_causal", {}, {"cudnn": 0.95}, ROWS, persistent=True),
    "fa_fwd_masked": Variant("fa_fwd_masked", {}, {"cudnn": 0.95}, ROWS),
    "fa_fwd_subtiled.dynamic": Variant("fa_fwd_subtiled", small=ROWS, persistent=True, dynamic=True),
    "fa_fwd_masked.dynamic": Variant("fa_fwd_masked", {}, {"cudnn": 0.95}, ROWS, persistent=True),
    "fa_fwd_window": Variant("fa_fwd_window", {}, {"flex": 1.27}, ROWS),
    "fa_fwd_softcap": Variant("fa_fwd_softcap", {}, {"flex": 1.94}, ({**ROWS[0], "groups": 2},)),
    "fa_bwd": Variant("fa_bwd", small=ROWS),
    "fa_bwd_subtiled": Variant("fa_bwd_subtiled", small=ROWS),
}
USUAL = tuple(name for name, variant in VARIANTS.items() if variant.cluster == 1)


def options(name: str) -> GenerateOptions:
    """Those of a variant, with its kept schedules."""
    one = VARIANTS[name]
    lowering = Options(cluster=one.cluster, dynamic=one.dynamic, independent=one.independent)
    kept = tuple(map(str, sorted(KEPT.glob(f"{one.like or name}.for*.json"))))
    return GenerateOptions(schedules=kept, lowering=lowering)


@click.group()
def main() -> None:
    """Generate, measure, report."""


folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
names_argument = click.argument("names", nargs=-1, type=click.Choice(list(VARIANTS)))


@main.command("generate")
@folder_argument
@names_argument
@click.option("--search", is_flag=True, help="Search for schedules anew, and keep them in reports/schedules.")
def generate_all(folder: Path, names: Sequence[str], search: bool) -> None:
    """Write every kernel from the schedules in reports/schedules. Needs Triton, no GPU."""
    for name in names or USUAL:
        found = options(name)
        made = generate(VARIANTS[name].inputs, replace(found, schedules=()) if search else found)
        for file, make in files(made).items():
            write(folder / name / file, make())
            if search and file.endswith(SCHEDULE):
                loop = file.removesuffix(SCHEDULE).partition(".")[2]
                write(KEPT / f"{name}.{loop}.json", make())
        click.echo(f"wrote {folder / name}", err=True)


@main.command()
@folder_argument
@names_argument
@click.option("--rounds", default=15, show_default=True)
@click.option("--cycles/--no-cycles", default=True)
@click.option("--triton/--no-triton", default=True)
def measure(folder: Path, names: Sequence[str], rounds: int, cycles: bool, triton: bool) -> None:
    """Build what is not built, measure, and write hopper.json, in which other kernels stay. Exit status 1
    where values are wrong."""
    from twill.bench.page import record, text
    from twill.bench.run import Wanted, bench

    build_all(folder, names or USUAL)
    reports, wrong = dict[str, Any](), 0
    for name in names or USUAL:
        try:
            wanted = Wanted(VARIANTS[name].shapes, rounds, triton=triton, cycles=cycles)
            report = bench(VARIANTS[name].inputs, folder / name, wanted)
        except TwillError as error:
            click.echo(f"{name}: {error}")
            wrong = 1
            continue
        click.echo(f"--- {name}\n{text(report)}")
        reports[name] = report
        found = record(reports)
        others = json.loads((folder / RESULTS).read_text())["reports"] if (folder / RESULTS).exists() else {}
        found["reports"] = {
            key: (others | found["reports"])[key] for key in VARIANTS if key in others or key in reports
        }
        write(
            folder / RESULTS, json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", **found}, indent=1) + "\n"
        )
    sys.exit(wrong)


@main.command()
@folder_argument
@names_argument
def sanitize(folder: Path, names: Sequence[str]) -> None:
    """Run memcheck and racecheck, on kernels in which every thread arrives where threads fill a slot
    (racecheck relates no thread's accesses to another thread's arrival). Exit status 1 where they find
    something."""
    found = 0
    for name in names or USUAL:
        variant = VARIANTS[name]
        request = _once(variant, _for_racecheck(folder / name))
        for tool in ("memcheck", "racecheck"):
            command = [
                "compute-sanitizer",
                "--tool",
                tool,
                "--error-exitcode",
                "9",
                sys.executable,
                "-m",
                "twill.bench.profile_target",
                request.text(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
            last = (done.stdout.strip().splitlines() or [done.stderr[-200:]])[-1]
            theirs = _only_in_libraries(done.stdout, variant.kernel)
            click.echo(f"{name}: {tool}: {last}{', all in kernels of libraries' if theirs else ''}")
            found |= bool(done.returncode) and not theirs
    sys.exit(found)


def _once(variant: Variant, built: Path) -> once.Request:
    """To run a kernel once on its small shapes."""
    runs = tuple(once.Runs(shape, ("twill",), {}) for shape in variant.small)
    return once.Request(variant.inputs.spec, "sm90", from_text(dict(variant.settings)), str(built), runs)


def _for_racecheck(folder: Path) -> Path:
    """A copy of a kernel, built so that racecheck can follow it."""
    copy = folder / "racecheck"
    copy.mkdir(exist_ok=True)
    for file in (build.SOURCE, build.MANIFEST, "kernel.ttgir"):
        shutil.copyfile(folder / file, copy / file)
    build.build(copy, ("-DTWILL_EVERY_THREAD_ARRIVES",))
    return copy


def _only_in_libraries(said: str, kernel: str) -> bool:
    """Whether racecheck reports races, and none of the generated kernel: references of attention run cuDNN's,
    which it reports."""
    return "Race reported" in said and f"{kernel}_kernel" not in said


def build_all(folder: Path, names: Sequence[str]) -> None:
    """Build those kernels of a folder that are not built yet."""
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                build.build, [folder / name for name in names if not (folder / name / build.LIBRARY).exists()]
            )
        )


# --- the report -------------------------------------------------------------------------------------------


@main.command()
@folder_argument
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=REPORT)
def report(folder: Path, out: Path) -> None:
    """Write reports/h200.md and its plot from hopper.json, which is kept beside it."""
    document = json.loads((folder / RESULTS).read_text())
    write(out.with_suffix(".json"), json.dumps(document) + "\n")
    old = out.read_text() if out.exists() else ""
    _, heading, kept = old.partition("\n## ")
    write(out, _page(document, out.stem) + heading + kept)
    plot(document["reports"], PLOTS / f"{out.stem}.svg")


def _page(document: Mapping[str, Any], name: str) -> str:
    machine, reports = document["machine"], document["reports"]
    head = (
        f"{machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}, PyTorch {machine['pytorch']},"
        f" {document['date']}. Made by `python benchmarks/hopper.py`: all kernels are generated from the"
        " schedules in `reports/schedules`. Medians of interleaved rounds in random order, L2 flushed (all"
        f" figures: {name}.json); ratios within one run, above 1 is faster than the baseline. Baselines:"
        " cuBLAS for GEMM of 8192 x 8192 x K (fp8 with fast accumulation: the faster of one scale and a"
        " scale for each row); the cuBLAS GEMM of equal FLOPs for dual_gemm of 8192 x 4096 and"
        " gemm_reduction; cuDNN for attention of 128 heads (batch 4 times 32), head dim 128 (backward:"
        " without the sums of o * do, with zeroing and rounding dQ on both sides), both through PyTorch."
        " SM cycles are those of the longest kernel. Triton, where it took part, is the fastest of its"
        " compilations: numbers of warps (4, 8) and stages (2, 3, 4), blocks, and forms of the kernel"
        " (`BENCH` in examples/kernels.py)."
    )
    head_of_speed = (
        "kernel",
        "shape",
        "TFLOP/s",
        "baseline",
        "speed / baseline",
        "target",
        "speed / Triton",
        "target",
        "error",
    )
    speed = table(head_of_speed, _speed(reports))
    counted = table(
        ("kernel", "shape", "twill", "tensor", "baseline", "tensor", "Triton", "tensor"), _counted(reports)
    )
    steady = table(("kernel", "scheduled", "predicted", "measured", "predicted / measured"), _steady(reports))
    warned = [f"* {name}: {warning}" for name, one in reports.items() for warning in one["warnings"]]
    parts = [
        f"# Generated kernels on an {name.upper()}\n\n{fill(head, 140)}\n",
        f"![Time against baselines, and SM cycles](../docs/images/{name}.svg)\n\n{speed}",
        f"SM cycles (`ncu --clock-control none`, million) and tensor core utilization:\n\n{counted}",
        (
            "Cycles per iteration of the steady state: scheduled, predicted by `twill simulate`, measured"
            " (difference in cycles of two runs"
        ),
        (
            "with one thread block per SM, divided by the difference in iterations; where thread blocks have"
            f" unequal work, of whole grids, by thread block):\n\n{steady}"
        ),
        "ptxas warnings:\n" if warned else "ptxas gave no warnings.",
        *warned,
    ]
    return "\n".join(parts) + "\n"


def _rows(reports: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any], dict[str, Any]]]:
    """Kernel, size, shape, and contenders by name; the fastest library is called `peer`."""
    found = list[Any]()
    for name, one in reports.items():
        for shape in one["shapes"]:
            by_name = {row["name"]: row for row in shape["contenders"]}
            libraries = [by_name.pop(peer) for peer in LIBRARIES if peer in by_name]
            by_name["peer"] = min(libraries, key=lambda row: row["ms"]["median"])
            size = next(f"{key} = {shape['shape'][key]}" for key in ("K", "length") if key in shape["shape"])
            found.append((name, size, shape, by_name))
    return found


def _ratio(rows: Mapping[str, Any], peer: str) -> float | None:
    return rows[peer]["ms"]["median"] / rows["twill"]["ms"]["median"] if peer in rows else None


def _shown(number: float | None, digits: int = 2) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def _speed(reports: Mapping[str, Any]) -> list[list[object]]:
    found = list[list[object]]()
    for name, size, shape, rows in _rows(reports):
        targets = VARIANTS[name].targets
        vendor = next((targets[peer] for peer in LIBRARIES if peer in targets), None)
        numbers = (
            _shown(_ratio(rows, "peer")),
            _shown(vendor),
            _shown(_ratio(rows, "triton")),
            _shown(targets.get("triton")),
        )
        worst = max(shape["errors"].values())
        found.append(
            [name, size, _shown(rows["twill"]["tflops"], 0), rows["peer"]["name"], *numbers, f"{worst:.1e}"]
        )
    return found


def _counted(reports: Mapping[str, Any]) -> list[list[object]]:
    found = list[list[object]]()
    for name, size, _, rows in _rows(reports):
        counts = [rows.get(one, {}).get("counted") for one in ("twill", "peer", "triton")]
        if any(counts):
            cells = ((_shown(_main(c) / 1e6, 3), f"{c['tensor']:.1f}%") if c else ("", "") for c in counts)
            found.append([name, size, *(cell for pair in cells for cell in pair)])
    return found


def _steady(reports: Mapping[str, Any]) -> list[list[object]]:
    loops = [(name, loop) for name, one in reports.items() for loop in one["loops"]]
    found = list[list[object]]()
    for name, x in loops:
        predicted, measured = x["predicted"], x["measured"]
        found.append(
            [name, x["scheduled"], f"{predicted:.0f}", f"{measured:.0f}", f"{predicted / measured:.2f}"]
        )
    return found


def plot(reports: Mapping[str, Any], path: Path) -> None:
    """Time beside a library and, where it took part, beside Triton, and SM cycles beside the library; of each
    kernel, a bar for each size."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "twill", "svg.fonttype": "none"}
    rows = _rows(reports)
    places = [i + 0.8 * list(reports).index(name) for i, (name, *_) in enumerate(rows)]
    cycles = [_cycles(contenders) for *_, contenders in rows]
    series = {
        "speed, times cuBLAS or cuDNN": [_ratio(contenders, "peer") for *_, contenders in rows],
        "speed, times the same kernel by Triton": [_ratio(contenders, "triton") for *_, contenders in rows],
        "SM cycles of cuBLAS or cuDNN by ours": cycles,
    }
    series = {title: values for title, values in series.items() if any(values)}
    size = (max(10.0, 0.17 * len(rows)), 3.0 * len(series))
    figure, grid = plt.subplots(
        len(series), 1, figsize=size, sharex=True, layout="constrained", squeeze=False
    )
    axes = grid[:, 0]
    for axis, (title, values) in zip(axes, series.items(), strict=True):
        axis.bar(
            places,
            [value or 0 for value in values],
            color=["#2a6f97" if (value or 0) >= 1 else "#c8553d" for value in values],
        )
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylim(0, max([1.3, *(value * 1.12 for value in values if value)]))
        for place, value in zip(places, values, strict=True):
            if value:
                axis.annotate(
                    f"{value:.2f}", (place, value), ha="center", va="bottom", fontsize=6, rotation=90
                )
        axis.margins(x=0.01)
    names = [name for name, *_ in rows]
    middles = {
        name: mean(place for place, one in zip(places, names, strict=True) if one == name) for name in names
    }
    axes[-1].set_xticks(list(middles.values()), list(middles), rotation=90, fontsize=7)
    sizes = ", ".join(dict.fromkeys(size for _, size, *_ in rows))
    axes[-1].set_xlabel(f"of each kernel, from left to right: {sizes}", fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _cycles(rows: Mapping[str, Any]) -> float | None:
    own, peer = rows["twill"].get("counted"), rows.get("peer", {}).get("counted")
    return _main(peer) / _main(own) if own and peer else None


def _main(counted: Mapping[str, Any]) -> float:
    """Cycles of the longest kernel: zeroing and rounding are beside it on both sides."""
    return counted.get("main") or counted["cycles"]


if __name__ == "__main__":
    main()
