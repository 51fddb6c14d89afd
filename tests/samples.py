"""Two solved loops for tests of what comes after the search: the paper's Figure 1, and attention on a made-up
machine."""

from twill.diagnostics import Location
from twill.ir.problem import (
    Edge,
    Limits,
    Operation,
    Problem,
    Reservation,
    Resolution,
    Source,
    Unit,
    Use,
    Value,
)
from twill.ir.schedule import (
    Allocation,
    Bounds,
    Group,
    Reason,
    RecurrenceBound,
    Refutation,
    ResourceBound,
    Result,
    Solution,
)


def figure1() -> Result:
    """Section 3.1: S = Q K, P = exp S, O += P V; I = 2 with S at 0, P at 2, O at 3."""

    def op(id: str, unit: str) -> Operation:
        return Operation(id, f"figure.{id.lower()}", (Reservation(unit, 1),), latency=1, issue=1)

    problem = Problem(
        name="figure1",
        machine="figure1",
        units=(Unit("TC"), Unit("SFU")),
        operations=(op("S", "TC"), op("P", "SFU"), op("O", "TC")),
        edges=(Edge("S", "P", 1), Edge("P", "O", 1), Edge("O", "O", 1, 1, kind="carried")),
    )
    return Result(
        problem,
        "optimal",
        Bounds(ResourceBound("TC", 2), RecurrenceBound(1, ("O",))),
        proved=2,
        solution=Solution(2, (0, 2, 3), (0, 0, 0)),
        refuted=(Refutation(1, None, "ResMII TC", 0.0, below=True),),
        seconds=(("bounds", 0.0), ("modulo", 0.01)),
    )


_UNITS = (Unit("TC"), Unit("SFU"), Unit("ALU"), Unit("TMA"), Unit("issue slots", 4, aggregate=True))


def _load(id: str, line: int) -> Operation:
    return Operation(
        id,
        "tt.descriptor_load",
        (Reservation("TMA", 256),),
        800,
        20,
        variable=True,
        streaming=True,
        location=Location("attention.ttgir", line, 9),
    )


def _mma(id: str, line: int, cycles: int = 512) -> Operation:
    table = (Reservation("TC", cycles), Reservation("issue slots", 30))
    return Operation(
        id, "ttng.warp_group_dot", table, cycles + 60, 30, 4, location=Location("attention.ttgir", line, 9)
    )


def _vector(id: str, name: str, unit: str, cycles: int, line: int) -> Operation:
    table = (Reservation(unit, cycles), Reservation("issue slots", cycles))
    return Operation(id, name, table, cycles + 30, cycles, 4, location=Location("attention.ttgir", line, 9))


def _tile(t: int, line: int) -> tuple[Operation, ...]:
    """One sub-tile of 64 rows and 128 columns."""
    return (
        _mma(f"qk{t}", line),
        _vector(f"rowmax{t}", "tt.reduce", "ALU", 80, line + 1),
        _vector(f"m{t}", "arith.maxnumf", "ALU", 2, line + 2),
        _vector(f"alpha{t}", "math.exp2", "SFU", 4, line + 3),
        _vector(f"scale{t}", "arith.subf", "ALU", 64, line + 4),
        _vector(f"p{t}", "math.exp2", "SFU", 512, line + 5),
        _vector(f"rowsum{t}", "tt.reduce", "ALU", 80, line + 6),
        _vector(f"l{t}", "arith.addf", "ALU", 2, line + 7),
        _vector(f"half{t}", "arith.truncf", "ALU", 64, line + 8),
        _vector(f"acc{t}", "arith.mulf", "ALU", 64, line + 9),
        _mma(f"pv{t}", line + 10),
    )


def _tile_edges(t: int) -> tuple[Edge, ...]:
    def edge(src: str, dst: str, delay: int, distance: int = 0, **more: object) -> Edge:
        return Edge(f"{src}{t}", f"{dst}{t}", delay, distance, **more)  # pyright: ignore[reportArgumentType]

    return (
        Edge("k", f"qk{t}", 0, kind="token"),
        edge("qk", "rowmax", 572, blocking=True),
        edge("rowmax", "m", 110),
        edge("m", "m", 32, 1, kind="carried"),
        edge("m", "alpha", 32),
        edge("qk", "scale", 572, blocking=True),
        edge("m", "scale", 32),
        edge("scale", "p", 30),
        edge("p", "rowsum", 470),
        edge("rowsum", "l", 110),
        edge("alpha", "l", 34),
        edge("l", "l", 32, 1, kind="carried"),
        edge("p", "half", 490),
        edge("alpha", "acc", 34),
        edge("half", "pv", 94),
        edge("acc", "pv", 94, kind="raw"),
        Edge("v", f"pv{t}", 0, kind="token"),
        edge("pv", "acc", 572, 1, kind="carried", blocking=True),
    )


def _tile_values(t: int) -> tuple[Value, ...]:
    return (
        Value(f"S{t}", f"qk{t}", (Use(f"rowmax{t}"), Use(f"scale{t}")), registers=64),
        Value(f"P{t}", f"p{t}", (Use(f"rowsum{t}"), Use(f"half{t}")), registers=64),
        Value(f"H{t}", f"half{t}", (Use(f"pv{t}", hold=512),), registers=32),
        Value(f"O{t}", f"pv{t}", (Use(f"acc{t}", 1),), registers=64, resident=True),
    )


_TILE_STARTS = (0, 572, 682, 1290, 714, 778, 1340, 1450, 1268, 2520, 2624)
"""The product P V waits for its turn on the tensor core, in the next interval."""


def attention() -> Result:
    """Two sub-tiles, one group each, half an interval apart; the product P V belongs to the iteration
    before."""
    problem = Problem(
        name="attention/for.0",
        machine="made up",
        units=_UNITS,
        operations=(_load("k", 40), _load("v", 41), *_tile(0, 50), *_tile(1, 70)),
        edges=(*_tile_edges(0), *_tile_edges(1)),
        values=(
            Value("K", "k", (Use("qk0", hold=512), Use("qk1", hold=512)), shared=32768, slots=1),
            Value("V", "v", (Use("pv0", hold=512), Use("pv1", hold=512)), shared=32768),
            *_tile_values(0),
            *_tile_values(1),
        ),
        limits=Limits(groups=3, warps=16, shared=232448),
        resolution=Resolution(),
        source=Source("attention.ttgir", "attention", 38, "for.0"),
        together=(),
    )
    second = tuple(start + 1056 for start in _TILE_STARTS)
    return Result(
        problem,
        "feasible",
        Bounds(ResourceBound("TC", 2048), RecurrenceBound(666, ("acc0", "pv0"))),
        proved=2048,
        solution=Solution(
            2112,
            (0, 1300, *_TILE_STARTS, *second),
            (0, 0, *(1,) * 11, *(2,) * 11),
            (Group(0, 1, 24), Group(1, 4, 160), Group(2, 4, 160)),
            (Allocation("K", "shared", 0, 32768, 2), Allocation("V", "shared", 65536, 32768, 2)),
        ),
        refuted=(Refutation(2047, None, "ResMII TC", 0.0, below=True),),
        reasons=(
            Reason("registers", "S, P, O and the converted P need 224 registers at once; a group has 160."),
        ),
        seconds=(("bounds", 0.01), ("search", 1.25)),
    )
