"""Public instances: GraphML graphs with their resource models are read as they are meant, and judged."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.public import Instance, instances, read
from twill.diagnostics import TwillError
from twill.ir.problem import Edge, Operation, Reservation, Unit

GRAPH = """<graphml><graph edgedefault="directed" id="">
  <node id="1"><data key="name">a</data><data key="uses_resource">Mul</data></node>
  <node id="2"><data key="name">b</data><data key="uses_resource">Mul</data></node>
  <node id="3"><data key="name">c</data><data key="uses_resource">Const</data></node>
  <edge id="1_2" source="1" target="2"><data key="distance">0</data><data key="delay">1</data></edge>
  <edge id="2_1" source="2" target="1"><data key="distance">2000</data><data key="delay">0</data></edge>
</graph></graphml>"""
MODEL = """<ModelInformation><Resources>
  <Resource blockingTime="2" latency="4" limit="1" name="Mul" physicalDelay="0.0">
    <Cost demand="1" name="LUT"/></Resource>
  <Resource blockingTime="1" latency="1" limit="-1" name="Const" physicalDelay="0.0"/>
</Resources></ModelInformation>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One graph with two models beside it, another with a model of its own, and best known intervals."""
    for path, text in {
        "fir/fir.graphml": GRAPH,
        "fir/RM1.xml": MODEL,
        "fir/RM2.xml": MODEL.replace('limit="1"', 'limit="2"'),
        "own/iir.graphml": GRAPH,
        "own/iirRM.xml": MODEL,
        "own/other_RM.xml": MODEL,
        "best.csv": "graph,resources,interval\nfir/fir.graphml,fir/RM1.xml,4\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_every_graph_goes_with_its_models(folder: Path) -> None:
    assert [instance.name(folder) for instance in instances(folder)] == [
        ("fir/fir.graphml", "fir/RM1.xml"),
        ("fir/fir.graphml", "fir/RM2.xml"),
        ("own/iir.graphml", "own/iirRM.xml"),
    ]


def test_an_instance_is_a_problem(folder: Path) -> None:
    problem = read(Instance(folder / "fir/fir.graphml", folder / "fir/RM1.xml"))
    assert problem.units == (Unit("Mul", 1),)
    assert problem.operations == (
        Operation("1", "Mul", (Reservation("Mul", 2),), 4),
        Operation("2", "Mul", (Reservation("Mul", 2),), 4),
        Operation("3", "Const", (), 1),
    )
    assert problem.edges == (Edge("1", "2", 5), Edge("2", "1", 4, 2000))


def test_a_resource_without_a_model_is_named(folder: Path) -> None:
    (folder / "fir/RM1.xml").write_text(MODEL.replace('"Const"', '"Other"'))
    with pytest.raises(TwillError, match="its resource model has no 'Const'"):
        read(Instance(folder / "fir/fir.graphml", folder / "fir/RM1.xml"))
    (folder / "fir/RM1.xml").write_text("<Resources>")
    with pytest.raises(TwillError, match="is no XML"):
        read(Instance(folder / "fir/fir.graphml", folder / "fir/RM1.xml"))


@pytest.mark.parametrize(
    ("best", "status", "word"), [(4, 0, "1 same"), (3, 1, "1 WRONG"), (5, 0, "1 better")]
)
def test_answers_are_judged(folder: Path, best: int, status: int, word: str) -> None:
    (folder / "best.csv").write_text(f"graph,resources,interval\nfir/fir.graphml,fir/RM1.xml,{best}\n")
    command = [sys.executable, "benchmarks/public.py", str(folder), "--only", "RM1", "--limit", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert word in done.stdout
