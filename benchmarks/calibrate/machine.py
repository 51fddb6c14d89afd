"""Puts measured costs of a Blackwell GPU into its machine file.

    python benchmarks/calibrate/machine.py [RESULTS [MACHINE]]

RESULTS is what `calibrate.py` wrote (default: results/b200.json), MACHINE the file to rewrite (default:
machines/b200.toml). Each number of `NUMBERS` that RESULTS has a record for replaces the old one on its own
line, its range in `between` goes, and the section's `source` then begins with the names of those records.
Prints what changed.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MACHINE = HERE.parents[1] / "machines" / "b200.toml"
ELEMENTS = 64 * 128
"""Of the tile that an elementwise record is about, for each warp group."""
LANES = 128 * 128
"""Words of the tile that a record of tensor memory is about."""
STEPS = 16
"""Of a chain."""
WARPS, INDEPENDENT = 4, 8
"""That execute mma.sync, and accumulators of each."""
ROW = 128
"""Elements that a thread reduces."""
FEW, MANY = 2048, 32768
"""Bytes that one warp group hands over to another."""


@dataclass(frozen=True, slots=True)
class Found:
    """A record: SM cycles of a lone repeat, and of each of many."""

    name: str
    parameters: Mapping[str, Any]
    once: float | None
    each: float


Records = Sequence[Found]


def one(records: Records, name: str, **wanted: object) -> Found | None:
    """The record of a name with these parameters; None where there is none."""
    return next((r for r in records if r.name == name and wanted.items() <= dict(r.parameters).items()), None)


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a machine file."""

    section: str
    path: tuple[str, ...]
    """Of keys in the section; all but the first are in its inline tables."""
    record: str
    wanted: Mapping[str, object]
    value: Callable[[Found], float]
    beyond: Mapping[str, object] | None = None
    """Parameters of a record of that name whose cycles are subtracted: what less of the same takes."""

    def measured(self, records: Records) -> float | None:
        """None where a record is missing."""
        found = one(records, self.record, **self.wanted)
        less = one(records, self.record, **self.beyond) if self.beyond else None
        if found is None or (self.beyond and less is None):
            return None
        return self.value(replace(found, each=found.each - less.each) if less else found)


def per_cycle(work: float) -> Callable[[Found], float]:
    """How much of the work of a repeat is done in a cycle."""
    return lambda found: round(work / found.each, 1)


def latency(found: Found) -> float:
    """Cycles of a lone repeat beyond what it occupies its unit."""
    return round((found.once or 0.0) - found.each)


def _rate(section: str, unit: str, record: str, kind: str = "", work: float = 2.0 * ELEMENTS) -> Number:
    """Of an elementwise operation in two warp groups."""
    path = ("rate", unit, kind) if kind else ("rate", unit)
    return Number(section, path, record, {"groups": 2}, per_cycle(work))


def _mma(section: str, kind: str, name: str, k: int) -> Number:
    """Of the largest instruction of one thread block, in multiply-adds."""
    wanted = {"kind": name, "m": 128, "n": 256, "a": "shared", "ctas": 1}
    return Number(section, ("rate", "tensor", kind), "mma", wanted, per_cycle(128 * 256 * k))


def _halved(found: Found) -> float:
    """One way of a round trip."""
    return round(found.each / 2)


def _arrival(found: Found) -> float:
    """Words of a tile of tensor memory for each cycle until the last is there."""
    return round(LANES / (found.once or found.each), 1)


def _step(found: Found) -> float:
    """Of the 16 dependent steps of a repeat."""
    return round(found.each / STEPS, 1)


def _exchange(found: Found) -> float:
    """The same, as a latency."""
    return round(found.each / STEPS)


def _warp_mma(kind: str, name: str, k: int) -> Number:
    """Of instructions of 16 x 8 in four warps."""
    work = WARPS * INDEPENDENT * 16 * 8 * k
    return Number("costs.mma_sync", ("rate", "tensor", kind), "warp_mma", {"type": name}, per_cycle(work))


_LARGEST = {"m": 128, "n": 256, "a": "shared", "ctas": 1}
NUMBERS = (
    _rate("costs.fma", "fma", "fma", "default"),
    _rate("costs.max", "alu", "maximum"),
    _rate("costs.logic", "alu", "logic"),
    _rate("costs.imul", "fma", "integer_multiply"),
    _rate("costs.narrow", "alu", "convert_bf16", "default"),
    _rate("costs.fp8", "alu", "convert_e4m3"),
    _rate("costs.fp8_unpack", "alu", "unpack_e4m3"),
    _rate("costs.special", "sfu", "exp2"),
    _rate("costs.round", "sfu", "floor"),
    _rate("costs.exp2_polynomial", "fma", "exp2_polynomial"),
    Number("costs.reduce", ("latency",), "chain_16", {"step": "shuffle_add"}, _exchange),
    Number(
        "costs.reduce", ("step",), "row_maximum_128", {"groups": 1}, lambda found: round(found.each / ROW, 2)
    ),
    Number("costs.scan", ("latency",), "chain_16", {"step": "shuffle_add"}, _exchange),
    Number("costs.scan", ("step",), "chain_16", {"step": "fma"}, _step),
    _rate("costs.shared_store", "smem", "store_matrix", work=4.0 * ELEMENTS),
    _rate("costs.shared_load", "smem", "load_matrix", work=4.0 * ELEMENTS),
    _mma("costs.tcgen05", "f16", "f16", 16),
    _mma("costs.tcgen05", "bf16", "bf16", 16),
    _mma("costs.tcgen05", "f32", "tf32", 8),
    _mma("costs.tcgen05", "f8", "f8f6f4", 32),
    Number("costs.tcgen05", ("latency",), "mma", {**_LARGEST, "kind": "f16"}, latency),
    _mma("costs.tcgen05_scaled", "f8", "mxf8f6f4", 32),
    _mma("costs.tcgen05_scaled", "f4", "mxf4", 64),
    Number("costs.tcgen05_scaled", ("latency",), "mma", {**_LARGEST, "kind": "mxf8f6f4"}, latency),
    Number("costs.tmem_load", ("rate", "tmem"), "tensor_load", {"groups": 2}, per_cycle(2 * LANES)),
    Number("costs.tmem_load", ("latency_rate",), "tensor_load", {"groups": 1}, _arrival),
    Number("costs.tmem_store", ("rate", "tmem"), "tensor_store", {"groups": 2}, per_cycle(2 * LANES)),
    Number("costs.tmem_store", ("latency_rate",), "tensor_store", {"groups": 1}, _arrival),
    Number("costs.tma_load", ("rate", "tma"), "tma_throughput", {"ctas": 1}, per_cycle(8192)),
    Number("costs.tma_load", ("latency",), "tma_latency", {"bytes": 8192}, latency),
    Number("costs.tma_store", ("rate", "tma"), "tma_store", {"ctas": 1}, per_cycle(8192)),
    Number("costs.tma_reduce", ("rate", "tma"), "tma_reduce", {"ctas": 1}, per_cycle(8192)),
    _warp_mma("f16", "f16", 16),
    _warp_mma("bf16", "bf16", 16),
    _warp_mma("f32", "tf32", 8),
    _warp_mma("f8", "e4m3", 32),
    _warp_mma("i8", "s8", 32),
    Number("handover", ("barrier",), "mbarrier_round_trip", {}, _halved),
    Number("handover", ("order",), "named_barrier_round_trip", {}, _halved),
    Number("handover", ("base",), "mbarrier_round_trip", {}, _halved),
    Number(
        *("handover", ("bytes_per_cycle",), "hand_over_round_trip", {"bytes": MANY}),
        *(per_cycle(MANY - FEW), {"bytes": FEW}),
    ),
    Number("handover", ("poll",), "mbarrier_arrive_and_wait", {}, lambda found: round(found.each)),
)


def rewritten(text: str, records: Records, file: str) -> tuple[str, list[str]]:
    """A machine file with all numbers that there are records for, and a line for each. Raises ValueError
    where a number has no line to stand on."""
    said, measured = list[str](), dict[str, list[str]]()
    for number in NUMBERS:
        value = number.measured(records)
        if value is None:
            continue
        before = at(text, number)
        text = _replaced(text, number, value)
        measured.setdefault(number.section, []).append(number.record)
        said.append(f"{number.section} {'.'.join(number.path)}: {before} -> {value:g} ({number.record})")
    for section, names in measured.items():
        text = _sourced(text, section, f"measured ({file}): {', '.join(dict.fromkeys(names))}; before: ")
    return text, said


def at(text: str, number: Number) -> object:
    """What a machine file has in a place."""
    found: Any = tomllib.loads(text)
    for key in (*number.section.split("."), *number.path):
        found = found[key]
    return found


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section begins and ends."""
    begin = text.index(f"\n[{name}]\n") + 1
    end = text.find("\n[", begin + 1)
    return begin, len(text) if end < 0 else end


def _replaced(text: str, number: Number, value: float) -> str:
    begin, end = _section(text, number.section)
    first, *inside = number.path
    pattern = rf"(?m)^({re.escape(first)} = " + "".join(rf".*?\b{re.escape(key)} = " for key in inside)
    made, count = re.subn(pattern + r")[\d.]+", rf"\g<1>{value:g}", text[begin:end], count=1)
    made = text[:begin] + _without_range(made, ".".join(number.path)) + text[end:]
    if not count or at(made, number) != value:
        raise ValueError(f"{number.section} has no number {'.'.join(number.path)} of its own")
    return made


def _without_range(section: str, path: str) -> str:
    """A section in which a number is no estimate any more."""
    key = rf'"?{re.escape(path)}"?'
    less = re.sub(rf"(?m)^(between = \{{.*?[{{ ]){key} = \[[^\]]*\](?:, )?", r"\1", section)
    return re.sub(r"(?m)^(between = .*),\s+\}$", r"\1 }", less)


def _sourced(text: str, section: str, how: str) -> str:
    """With the records' names in front of where numbers came from before; these replace earlier names."""
    begin, end = _section(text, section)
    plain = re.sub(
        r'(?m)^source = "measured \(\S*results/\S*\): [^"]*?; before: ', 'source = "', text[begin:end]
    )
    return text[:begin] + plain.replace('source = "', f'source = "{how}', 1) + text[end:]


def main() -> None:
    """Rewrites the machine file."""
    given = [Path(one) for one in sys.argv[1:]]
    results = given[0] if given else HERE / "results" / "b200.json"
    machine = given[1] if len(given) > 1 else MACHINE
    records = [Found(**one) for one in json.loads(results.read_text())["records"]]
    text, said = rewritten(machine.read_text(), records, f"benchmarks/calibrate/results/{results.name}")
    machine.write_text(text)
    print("\n".join(said))


if __name__ == "__main__":
    main()
