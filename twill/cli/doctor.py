"""`twill doctor`: what is installed, and what it enables."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

import click

from twill.cli.options import Command

Check = tuple[str, str | None, str]
"""A component, its version (None where it is missing), and what it enables."""

_SOLVERS = (
    ("ortools", "ortools", "engine cpsat: exact times, most proofs"),
    ("pysat", "python-sat", "engine sat: partitions and refutations"),
    ("yices_api", "yices", "engine yices: the paper's model"),
    ("pulp", "pulp", "engine cbc: plain modulo schedules"),
    ("pyscipopt", "pyscipopt", "engine scip: --resolution, plain modulo schedules"),
)


@click.command(cls=Command, short_help="Show what is installed, and what it enables.")
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Show Python, the solvers, Triton, nvcc, ncu, the GPU and the cache, and what each of them enables.

    Exit status: 0 if schedules can be computed, 1 otherwise.
    """
    checks = list(_checks())
    widths = [max(len(check[i] or "") for check in checks) for i in (0, 2)]
    for name, version, enables in checks:
        mark, shown = ("ok", version) if version else ("--", "not found")
        colored = click.style(mark, fg="green" if version else "yellow")
        click.echo(f"{colored}  {name:<{widths[0]}}  {enables:<{widths[1]}}  {shown}")
    ctx.exit(0 if find_spec("ortools") and find_spec("pysat") else 1)


def _checks() -> Iterator[Check]:
    yield "twill", _package("twill-scheduler"), "this program"
    yield "python", f"{platform.python_version()} ({sys.executable})", "3.11 or newer"
    for module, package, enables in _SOLVERS:
        yield package, _package(package) if find_spec(module) else None, enables
    yield (
        "triton",
        _package("triton"),
        "Python kernels, Triton's cache, checks of annotated TTGIR (3.5 to 3.9)",
    )
    yield (
        "nvcc",
        _output(["nvcc", "--version"], "release"),
        "twill codegen --build, twill.compile (12.4 or newer)",
    )
    yield "nvdisasm", _disassembler(), "SASS in the report of twill codegen"
    yield "gpu", _gpu(), "twill bench, running kernels (Hopper, Blackwell)"
    yield "ncu", _output(["ncu", "--version"], "Version"), "SM cycles in twill bench"
    yield "torch", _package("torch"), "twill bench, baselines"
    yield "cache", _cache(), "built kernels; see twill cache"


def _package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _output(command: list[str], mark: str) -> str | None:
    """The first line of a program's output that contains `mark`; None where it cannot be run."""
    text = _run(command)
    return next((line.strip() for line in text.splitlines() if mark in line), None) if text else None


def _run(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout if done.returncode == 0 else ""


def _disassembler() -> str | None:
    from twill.launch.disassembly import tool

    return tool("nvdisasm")


def _gpu() -> str | None:
    query = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    lines = _run(query).strip().splitlines()
    return lines[0] if lines else None


def _cache() -> str | None:
    from twill.launch.folders import cache_folder

    folder = cache_folder()
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return str(folder) if os.access(there, os.W_OK) else None
