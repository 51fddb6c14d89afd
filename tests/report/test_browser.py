"""The report in a real browser: no script errors, every link has a target, and what its controls do.

Chromium runs the page with a script of the test appended, which leaves its findings in the document; skipped
where there is none.
"""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.programs import loops, program
from tests.samples import attention
from twill.ir.schedule import Result
from twill.report import listings
from twill.report.page import Context, Run, page
from twill.simulate.predict import predict
from twill.targets import target

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1400,1000",
        "--virtual-time-budget=4000",
    ),
)
CATCH = "<script>window.errors = []; addEventListener('error', (e) => errors.push(e.message));</script>"
PROBE = """
<script>
addEventListener("load", () => {
  const all = (query) => [...document.querySelectorAll(query)];
  const press = (text, host) => [...host.querySelectorAll("button")].find((b) => b.textContent === text).click();
  const chart = document.querySelector("[data-chart=schedule]"), bars = () => chart.querySelectorAll("rect[data-op]").length;
  const height = () => Number(chart.querySelector("svg.live").getAttribute("height"));
  const point = (one, type) => one.dispatchEvent(new PointerEvent(type, { bubbles: true, cancelable: true }));
  const found = { bars: bars(), height: height() };
  found.links = all("nav a").map((a) => a.getAttribute("href")).filter((id) => !document.querySelector(id));
  found.lit = Object.fromEntries(Object.keys(JSON.parse(document.getElementById("data").textContent).ops).map((op) => {
    const row = all("#operations tr").find((tr) => tr.dataset.op === op);
    point(row, "pointerover");
    const where = all(".hit").map((one) => one.closest("section").id);
    point(document.querySelector("h1"), "pointerover");
    return [op, [...new Set(where)]];
  }));
  found.left = all(".hit").length;
  chart.querySelector("[data-iteration='0']").click();
  found.filtered = bars();
  chart.querySelector("[data-iteration='0']").click();
  press("Fold units", chart);
  found.folded = height();
  press("Fold units", chart);
  chart.querySelector(".row-label").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  found.oneFolded = height();
  chart.querySelector(".row-label").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  press("+", chart);
  press("+", chart);
  found.zoomed = bars();
  press("All", chart);
  found.all = bars();
  const search = document.getElementById("search");
  search.value = "WANTED";
  search.dispatchEvent(new Event("input"));
  found.searched = all("#operations tr.hit").map((tr) => tr.dataset.op);
  const wide = (one) => one.scrollWidth > one.clientWidth + 1;
  found.cut = all(".panes, #operations .scroll").map(wide);
  search.value = "";
  search.dispatchEvent(new Event("input"));
  chart.querySelector("rect[data-op]").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  found.inspector = document.querySelector(".inspector")?.textContent || "";
  found.errors = errors;
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out);
});
</script>
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@cache
def example(kernel: str = "fa_fwd_subtiled") -> tuple[Result, Context]:
    """A scheduled example with its listings and a simulated run."""
    made, (one,) = program(kernel), loops(kernel)[1]
    predicted = predict(made, (one,))
    events = tuple(event for event in predicted.events if event.loop == one.loop.op.index)
    ttgir = listings.ttgir(made.module, one.loop, one.graph)
    found = (
        listings.python(made.module, one.loop, one.graph),
        ttgir,
        listings.cuda(target("sm90").source(made), ttgir),
    )
    result = replace(
        attention(), problem=one.problem, solution=one.solution, refuted=(), reasons=(), proved=1
    )
    return result, Context(
        listings=tuple(listing for listing in found if listing),
        run=Run(events, predicted.loops[one.loop.path]),
    )


def visited(html: str, folder: Path, wanted: str) -> dict[str, Any]:
    """What the probe finds on a page."""
    file = folder / "report.html"
    probe = PROBE.replace("WANTED", wanted)
    file.write_text(
        html.replace("<head>", "<head>" + CATCH).replace("</body>", probe + "</body>"), encoding="utf-8"
    )
    assert CHROMIUM
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    return json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.mark.parametrize("kernel", ["fa_fwd_subtiled", "fa_bwd"])
def test_an_example(kernel: str, tmp_path: Path) -> None:
    result, context = example(kernel)
    html = page(result, context)
    assert len(html.encode()) < 2_000_000
    one = result.problem.operations[-1].id
    found = visited(html, tmp_path, one)
    assert found["errors"] == []
    assert found["links"] == []
    assert found["left"] == 0
    for op in result.problem.operations:
        assert {"timeline", "dependence-graph", "sources", "operations"} <= {*found["lit"][op.id]}
        assert op.variable or "simulated-timeline" in found["lit"][op.id]
    holding = {value.src for value in result.problem.values if value.registers}
    assert all("registers-and-memory" in found["lit"][op] for op in holding)
    assert found["filtered"] < found["bars"] == found["all"]
    assert found["zoomed"] < found["bars"]
    assert found["folded"] < found["oneFolded"] < found["height"]
    assert one in found["searched"]
    assert "latency, cycles" in found["inspector"]
    assert found["cut"][0] is False, "sources are beside each other"


def test_costs_are_read_without_scrolling(tmp_path: Path) -> None:
    """Of operations with names of a usual length, on a page of 1400 pixels."""
    result, context = example("gemm")
    found = visited(page(result, context), tmp_path, result.problem.operations[-1].id)
    assert found["cut"] == [False, False]


def test_a_graph_file_without_sources(tmp_path: Path) -> None:
    found = visited(page(attention()), tmp_path, "qk1")
    assert found["errors"] == []
    assert found["links"] == []
    assert "qk1" in found["searched"]
