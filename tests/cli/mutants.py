# pyright: basic
"""TTGIR with one mistake in it: what `codegen --no-build` and `simulate` say of it.

python -m tests.cli.mutants COUNT [SEED]        prints every mutant that is an internal error
"""

import random
import re
import sys
from pathlib import Path

from twill.cli.guard import guarded
from twill.diagnostics import InternalError
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.simulate.compare import compare, scalars
from twill.simulate.explore import explore, same
from twill.simulate.protocol import HazardError

FILES = (
    "examples/ttgir/gemm.sm90.ttgir",
    "examples/ttgir/gemm_persistent.sm90.ttgir",
    "tests/kernels/ttgir/exclusive.sm90.ttgir",
)
FILES += (
    "tests/kernels/ttgir/pointers.sm90.ttgir",
    "tests/kernels/ttgir/epilogue.sm90.ttgir",
    "tests/kernels/ttgir/panels.sm90.ttgir",
)
GRID = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 2, "grid.y": 2, "grid.z": 1}
NUMBERS = (0, -1, 1, 2, 3, 5, 7, 16, 24, 100, 1 << 20, 1 << 40)
TYPES = ("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "f8E4M3FN", "index", "x0y")
ALIKE = (
    ("arith.addf", "arith.mulf", "arith.subf", "arith.divf", "arith.maxnumf", "arith.xori", "math.atan2"),
    (
        "arith.addi",
        "arith.muli",
        "arith.divsi",
        "arith.remsi",
        "arith.shrui",
        "arith.maxui",
        "arith.floordivsi",
    ),
    (
        "tt.splat",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.trans",
        "tt.reshape",
        "ttg.convert_layout",
        "tt.unsplat",
    ),
    (
        "tt.descriptor_load",
        "tt.descriptor_store",
        "tt.descriptor_reduce",
        "tt.load",
        "tt.store",
        "tt.atomic_rmw",
    ),
    ("arith.extf", "arith.truncf", "arith.sitofp", "arith.extsi", "arith.bitcast", "tt.fp_to_fp"),
)


def mutant(text: str, choose: random.Random) -> str:
    """The text with one thing changed."""
    kind = choose.choice(MUTATIONS)
    for _ in range(50):
        changed = kind(text, choose)
        if changed != text:
            return changed
    return text


def _one(text: str, pattern: str, choose: random.Random, new) -> str:
    """One match of a pattern replaced."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = choose.choice(found)
    return text[: match.start()] + str(new(match)) + text[match.end() :]


def number(text: str, choose: random.Random) -> str:
    return _one(text, r"(?<![\w%#.\"-])\d+(?![\w.])", choose, lambda match: choose.choice(NUMBERS))


def dimension(text: str, choose: random.Random) -> str:
    return _one(text, r"(?<=[<x])\d+(?=x)", choose, lambda match: choose.choice(NUMBERS[2:]))


def dtype(text: str, choose: random.Random) -> str:
    return _one(text, r"\b(?:f16|f32|i32|i64|i1|bf16)\b", choose, lambda match: choose.choice(TYPES))


def everywhere(text: str, choose: random.Random) -> str:
    """A type replaced wherever it stands."""
    return re.sub(rf"{choose.choice(('f16', 'f32', 'i32'))}\b", choose.choice(TYPES), text)


def value(text: str, choose: random.Random) -> str:
    names = sorted(set(re.findall(r"%\w+", text)))
    return _one(text, r"%\w+", choose, lambda match: choose.choice(names))


def operation(text: str, choose: random.Random) -> str:
    names = choose.choice(ALIKE)
    return _one(text, "|".join(map(re.escape, names)), choose, lambda match: choose.choice(names))


def encoding(text: str, choose: random.Random) -> str:
    names = sorted(set(re.findall(r"#\w+", text)))
    return _one(text, r"#\w+(?=>)", choose, lambda match: choose.choice(names))


def dropped(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    at = choose.randrange(len(lines))
    return "\n".join(lines[:at] + lines[at + 1 :])


def doubled(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    at = choose.randrange(len(lines))
    return "\n".join(lines[: at + 1] + lines[at:])


def attribute(text: str, choose: random.Random) -> str:
    return _one(
        text,
        r"\{[^{}]*\}",
        choose,
        lambda match: choose.choice(("", "{}", "{axis = 5 : i32}", "{order = array<i32: 1, 1>}")),
    )


MUTATIONS = (
    number,
    number,
    dimension,
    dimension,
    dtype,
    dtype,
    everywhere,
    value,
    value,
    operation,
    encoding,
    dropped,
    doubled,
    attribute,
)


def outcome(text: str, seconds: float = 2.0) -> Exception | None:
    """What a user would see of a module; None where it is generated and simulated."""
    try:
        made = generate(Inputs(text, arch="sm90"), GenerateOptions(time_limit=seconds, check=False)).program
        for trips in (0, 1, 3):
            explore(made, same(trips), limit=200)
        compare(made, {name: min(number, 64) for name, number in scalars(made.function, {}).items()}, GRID)
    except Exception as problem:
        return guarded(problem)
    return None


def mutants(count: int, seed: int):
    choose = random.Random(seed)
    texts = [Path(file).read_text() for file in FILES]
    for _ in range(count):
        yield mutant(choose.choice(texts), choose)


if __name__ == "__main__":
    import collections
    import difflib

    count, seed = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    seen, originals = collections.Counter(), [Path(file).read_text() for file in FILES]
    for text in mutants(count, seed):
        problem = outcome(text)
        seen[type(problem).__name__] += 1
        if isinstance(problem, InternalError | HazardError):
            near = min(originals, key=lambda one: abs(len(one) - len(text)) + (one[:40] != text[:40]))
            diff = [
                line
                for line in difflib.unified_diff(near.split("\n"), text.split("\n"), n=0, lineterm="")
                if line[:1] in "+-"
            ][2:6]
            frames = [
                line.strip() for line in getattr(problem, "details", "").splitlines() if "/twill/" in line
            ][-2:]
            print(problem.message, "|", *diff, "|", *frames, sep="\n   ", flush=True)
    print(dict(seen))
