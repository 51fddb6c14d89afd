"""What warps wait for: from ncu's page, the disassembly and the CUDA to a table and a drawing."""

import json
from pathlib import Path

import pytest

from twill.bench import stall_page, stalls
from twill.bench.run import Steady
from twill.diagnostics import TwillError
from twill.report.scene import svg

LOOP = "gemm/for.0"
CUDA = """\
__global__ void gemm_kernel(int32_t n) {
    if (warp_index() < 4) {
        // ---- group 1: 4 warps
        {
            // gemm/for.0: 2 stages, an iteration every 512 cycles
            const int32_t n = trips_0;
            if (n >= 1) {
                channel_x.consumer_wait(count_x);
                for (int32_t i = 1; i < n; ++i) {
                    channel_x.consumer_wait(count_x + i);
                    // cycle 30, stage 0: dot.acc (gemm.ttgir:51:19)
                    {
                        wgmma_fence();
                    }
                    wgmma_wait<1>();
                    channel_x.consumer_release(count_x + i - 1);
                }
                wgmma_wait<0>();
            }
        }
        // store (gemm.ttgir:56:7)
        {
            tma_store();
        }
    }
}
"""
WAIT, DOT, MMA_WAIT, RELEASE, LAST, STORE = (
    1 + next(i for i, line in enumerate(CUDA.splitlines()) if text in line)
    for text in ("count_x + i)", "wgmma_fence", "wait<1>", "release", "wait<0>", "tma_store")
)
REASONS = ("stall_barrier", "stall_long_sb", "stall_selected")
SAMPLES = (
    (WAIT, (0, 30, 10)),
    (DOT, (0, 0, 40)),
    (MMA_WAIT, (100, 0, 0)),
    (LAST, (15, 0, 0)),
    (STORE, (0, 0, 5)),
)


def _disassembly() -> str:
    other = [".text._Z5otheri:", f'\t//## File "/tmp/kernel.cu", line {DOT}', "        /*0000*/   EXIT ;"]
    own = [".text._Z11gemm_kerneli:"]
    for i, (line, _) in enumerate(SAMPLES):
        own.append('\t//## File "/x/barrier.cuh", line 57 inlined at "/tmp/kernel.cu", line 1')
        own.append(f'\t//## File "/tmp/kernel.cu", line {line}')
        own.append(f"        /*{16 * i:04x}*/                   NOP ;")
    return "\n".join([*other, *own])


def _page(kernel: str = "gemm_kernel(int)") -> str:
    names = ("Address", "Source", "# Samples", *REASONS, "stall_barrier (Not Issued)")
    lines = [f'"Kernel Name","{kernel}",', ",".join(f'"{name}"' for name in names)]
    for i, (_, counts) in enumerate(SAMPLES):
        row = (hex(0x7FC000 + 16 * i), "NOP", sum(counts), *counts, 999)
        lines.append(",".join(f'"{value}"' for value in row))
    return "\n".join(["==PROF== connected", *lines])


def _profile() -> stalls.Profile:
    return stalls.profile(_page(), _disassembly(), CUDA)


def test_samples_belong_to_the_statements_of_the_schedule() -> None:
    found = _profile()
    assert found.kernel == "gemm_kernel"
    assert found.samples == 200
    steady = {one.statement.name: (one.samples, one.statement.cycle) for one in found.steady(1)}
    assert steady == {"consumer_wait x": (40, None), "dot.acc": (40, 30), "wait 1": (100, None)}
    assert found.steady(1)[0].reasons == {"long_sb": 30, "selected": 10}
    assert found.outside(1) == pytest.approx(20 / 200)
    assert [one.statement.loop for one in found.statements] == [LOOP] * 5


def test_lines_know_their_part_of_the_loop() -> None:
    found = stalls.statements(CUDA)
    assert found[RELEASE].name == "consumer_release x"
    assert {found[line].part for line in (WAIT, DOT, MMA_WAIT, RELEASE)} == {"steady"}
    assert {found[line].part for line in (LAST, STORE)} == {"other"}
    assert found[STORE].name == "store"
    assert 1 not in found  # before the first group


def test_the_table_has_cycles_where_they_are_known() -> None:
    loops = {LOOP: Steady(LOOP, 512, 520.0, 900.0, (4, 64))}
    known, unknown = stall_page.text(_profile(), loops), stall_page.text(_profile(), {})
    assert [line.split()[:4] for line in known.splitlines() if "dot.acc" in line] == [
        ["30", "dot.acc", "200", "issues"]
    ]
    assert "wait 1               500  named barrier 100%" in known
    assert "22.2%  issues 100%" in unknown
    document = json.loads(stall_page.document(_profile(), loops))
    assert document["schema"] == stall_page.SCHEMA
    assert document["cycles_per_iteration"] == {LOOP: 900.0}


def test_the_drawing_has_the_prediction_beside_the_samples() -> None:
    track = {"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {"name": "group 1"}}
    events = [
        {
            "name": name,
            "ph": "X",
            "ts": 512.0 * i + at,
            "dur": long,
            "pid": 1,
            "tid": 2,
            "args": {"iteration": i},
        }
        for i in range(8)
        for name, at, long in (
            ("consumer_wait x", 0.0, 55.0),
            ("dot.acc", 55.0, 100.0),
            ("wait 1", 155.0, 357.0),
        )
    ]
    spans = stall_page.iteration(
        stall_page.simulated(json.dumps({"traceEvents": [track, *events]}))["group 1"], ["absent", "dot.acc"]
    )
    assert [(one.name, one.begin, one.end) for one in spans] == [
        ("dot.acc", 0.0, 100.0),
        ("wait 1", 100.0, 457.0),
        ("consumer_wait x", 457.0, 512.0),
    ]
    drawn = svg(stall_page.drawing(_profile(), LOOP, 900.0, json.dumps({"traceEvents": [track, *events]})))
    assert "dot.acc: 200 cycles; issues 100%" in drawn
    assert "wait 1: 357 cycles" in drawn
    assert drawn.count(">predicted<") == drawn.count(">measured<") == 1


def test_every_line_of_a_golden_kernel_in_a_steady_loop_has_its_operation() -> None:
    found = stalls.statements(Path("tests/targets/golden/fa_fwd_subtiled.cu").read_text())
    names = {one.name for one in found.values() if one.part == "steady" and one.group == 1}
    assert {"consumer_wait z", "wait 1", "wait hand_off1"} < names
    assert any(name.startswith("exp2.weights") for name in names)


def test_samples_of_another_kernel_are_refused() -> None:
    with pytest.raises(TwillError, match="not the kernel that was built"):
        stalls.profile(_page("spin_kernel(long)"), _disassembly(), CUDA)
    with pytest.raises(TwillError, match="no source page"):
        stalls.profile("==ERROR==", _disassembly(), CUDA)
