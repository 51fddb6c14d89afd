"""Which package may import which: only those of lower layers, so that no two import each other.

docs/architecture.md has the same layers. Imports inside functions count too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYERS = (
    ("diagnostics",),
    ("ir",),
    ("engine", "ops"),
    ("costs", "extract", "warp"),
    ("files", "modulo", "targets.cuda"),
    (
        "emit",
        "smt",
        "targets.blackwell",
        "targets.gluon",
        "targets.hopper",
        "targets.tilelang",
        "verify",
        "whatif",
    ),
    ("explain", "inputs", "pipeline", "simulate", "targets"),
    ("launch", "report"),
    ("bench", "emulate", "grid_time", "json_schema"),
    ("generation",),
    ("sweep",),
    ("api", "cluster", "triton"),
    ("cli", "twill"),
    ("__main__",),
)
"""Packages and modules of `twill`, lowest layer first; `targets` itself only chooses one of its packages."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FORBIDDEN = {
    "ir": {"ops", "extract"},
    "verify": {"engine", "modulo", "smt"},
    "emit": {"costs", "extract", "warp"},
    "targets.cuda": {"costs", "extract", "engine"},
    "report": {"pipeline", "targets"},
}
"""What a package has no reason to know, though it is in a lower layer."""
GENERATION = (
    ("alike", "coded", "generated", "hand_offs", "part_of_sm", "persistence", "refusals"),
    ("kept_remedies", "subtiles", "update_groups"),
    ("given", "loop_nest"),
    ("going_together", "stated"),
    ("attempt", "searches"),
    ("shared_sm",),
    ("attempts", "early_mmas", "independent", "multistage", "scheduled"),
    ("one_form",),
    ("candidates",),
    ("as_made", "generate", "kept_searches"),
    ("checked_build", "retries"),
    ("forms", "shared_forms"),
    ("spills",),
    ("more_blocks",),
    ("for_grids",),
    ("best_retry",),
    ("without_warnings",),
    ("built", "export"),
)
"""Modules of `twill.generation`, lowest layer first."""
MODULES = sorted(Path("twill").rglob("*.py"))


def unit(module: str) -> str:
    """The package, or module directly below `twill`, that a module belongs to."""
    parts = module.split(".")
    if len(parts) == 1:
        return "twill"
    return ".".join(parts[1:3]) if parts[1] == "targets" and len(parts) > 2 else parts[1]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The modules of `twill` that one imports, with the lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = Path(*node.module.split("."), alias.name)
                yield (
                    node.lineno,
                    f"{node.module}.{alias.name}"
                    if inner.is_dir() or inner.with_suffix(".py").exists()
                    else node.module,
                )


def between(path: Path) -> Iterator[tuple[str, str, str]]:
    """Importing and imported unit, with the place of the import."""
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    for line, name in imported(path):
        if name.split(".")[0] == "twill" and unit(name) != unit(module):
            yield unit(module), unit(name), f"{path}:{line}"


def test_every_package_has_a_layer() -> None:
    assert {unit(".".join(path.with_suffix("").parts).removesuffix(".__init__")) for path in MODULES} == set(
        RANK
    )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_to_lower_layers(path: Path) -> None:
    assert [where for one, other, where in between(path) if RANK[other] >= RANK[one]] == []
    assert [where for one, other, where in between(path) if other in FORBIDDEN.get(one, set())] == []


def test_lowering_is_free_of_targets() -> None:
    """No architecture is baked into twill.warp: neither an import nor the name of its instructions in
    code."""
    for path in sorted(Path("twill/warp").glob("*.py")):
        names = {
            node.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Name)
        }
        assert not {name for name in names if "wgmma" in name.lower() or "tcgen05" in name.lower()}, path


def test_the_documentation_has_the_same_layers() -> None:
    text = Path("docs/architecture.md").read_text(encoding="utf-8")
    rows = [
        line
        for line in text.split("## Layers")[1].split("## ")[0].splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    shown = [tuple(sorted(name.strip(" `") for name in row.split("|")[2].split(","))) for row in rows]
    assert shown == [tuple(sorted(names)) for names in LAYERS]


def test_the_reader_knows_nothing_of_what_uses_it() -> None:
    """Within twill.extract: text is read first; dependences, rewrites and the front end build on it."""
    for path in sorted(Path("twill/extract/reader").glob("*.py")):
        assert {name.split(".")[2] for _, name in imported(path) if name.startswith("twill.extract.")} <= {
            "reader"
        }, path
    for path in sorted(Path("twill/extract/dependence").glob("*.py")):
        assert {name.split(".")[2] for _, name in imported(path) if name.startswith("twill.extract.")} <= {
            "reader",
            "dependence",
        }, path


def test_the_modules_of_generation_are_layers() -> None:
    rank = {name: at for at, names in enumerate(GENERATION) for name in names}
    paths = sorted(Path("twill/generation").rglob("[!_]*.py"))
    assert set(rank) == {path.stem for path in paths}
    for path in paths:
        used = {name.split(".")[-1] for _, name in imported(path) if name.startswith("twill.generation.")}
        assert [name for name in sorted(used) if rank[name] >= rank[path.stem]] == [], path
