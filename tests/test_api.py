"""The public names: all there, none heavy, and enough for a notebook."""

import subprocess
import sys
from pathlib import Path

import pytest

import twill
from tests.samples import attention, figure1


def test_every_public_name_is_there() -> None:
    assert sorted(twill.__all__) == twill.__all__
    assert all(getattr(twill, name).__doc__ for name in twill.__all__)
    with pytest.raises(AttributeError):
        _ = twill.nothing  # pyright: ignore


def test_importing_it_imports_nothing_else() -> None:
    script = (
        "import sys; before = set(sys.modules); import twill; print(sorted(m for m in set(sys.modules) -"
        " before if 'twill' in m))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "['twill']\n"


def test_a_graph_from_file_to_drawing(tmp_path: Path) -> None:
    path = tmp_path / "figure1.graph.json"
    path.write_text(twill.write_graph(figure1().problem))
    (result,) = twill.schedule(str(path), twill.Options(modulo_only=True))
    assert result.solution
    assert result.solution.interval == 2
    assert not twill.check(result.problem, result.solution, joint=False)
    assert "optimal" in twill.summary(result)
    assert "steady state" in twill.program_text(result.problem, result.solution)
    assert twill.draw_timeline(result)._repr_svg_() == twill.svg(twill.draw_timeline(result))
    assert "<html" in twill.report_page(result)


def test_what_cannot_be_drawn_or_annotated_says_so() -> None:
    from dataclasses import replace

    unsolved = replace(attention(), solution=None)
    with pytest.raises(ValueError, match="no schedule"):
        twill.draw_timeline(unsolved)
    with pytest.raises(ValueError, match="annotated"):
        twill.annotate(twill.Case(unsolved.problem), unsolved)
