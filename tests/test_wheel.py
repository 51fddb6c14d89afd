"""The wheel holds everything that the program reads at run time."""

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder  # pyright: ignore[reportMissingTypeStubs]

ROOT = Path(__file__).parents[1]


def test_the_wheel_is_complete(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"twill/{p.relative_to(ROOT / 'twill').as_posix()}"
        for p in (ROOT / "twill").rglob("*")
        if p.suffix in (".py", ".j2", ".cuh")
    }
    machines = {f"twill/machines/{p.name}" for p in (ROOT / "machines").glob("*.toml")}
    assert machines
    assert sources | machines <= names
    assert {name.split("/")[0] for name in names} <= {
        "twill",
        next(n for n in names if n.endswith("/METADATA")).split("/")[0],
    }
