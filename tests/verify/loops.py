"""Small hand-made loops of the verifier's tests."""

from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.schedule import Allocation, Group, Solution


def op(id: str, unit: str = "TC", cycles: int = 1, **more: object) -> Operation:
    return Operation(id, "op", (Reservation(unit, cycles),), **{"latency": cycles, "warps": 4, **more})  # pyright: ignore[reportArgumentType]


def figure1() -> Problem:
    """The paper's running example: S = gemm, P = exp, O += gemm."""
    return Problem(
        "figure1",
        "toy",
        (Unit("TC"), Unit("SFU")),
        (op("S"), op("P", "SFU"), op("O")),
        (Edge("S", "P", 1), Edge("P", "O", 1), Edge("O", "O", 1, 1, kind="carried")),
    )


def piped() -> tuple[Problem, Solution]:
    """A streaming load, two groups, a multi-buffered value in shared memory and two values over each other in
    tensor memory; valid."""
    problem = Problem(
        "piped",
        "toy",
        (Unit("TC"), Unit("SFU")),
        (
            Operation("load", "tma", latency=6, issue=1, variable=True, streaming=True),
            op("qk", cycles=2, issue=1),
            op("exp", "SFU", 2, issue=2),
            op("pv", cycles=2, issue=1),
        ),
        (
            Edge("load", "qk", 0),
            Edge("qk", "exp", 2, cross_delay=3),
            Edge("exp", "pv", 2, cross_delay=3),
            Edge("pv", "pv", 2, 1, kind="carried"),
        ),
        (
            Value("k", "load", (Use("qk", hold=2),), shared=10, slots=1),
            Value("s", "qk", (Use("exp", hold=1),), tensor=4),
            Value("p", "exp", (Use("pv", hold=2),), registers=20, staging=6),
            Value("o", "pv", (Use("pv", 1),), tensor=8, resident=True),
        ),
        Limits(
            groups=3,
            warps=12,
            registers_per_thread=40,
            registers_total=9216,
            register_step=8,
            shared=40,
            tensor=12,
        ),
    )
    solution = Solution(
        4,
        (0, 0, 3, 6),
        (0, 1, 2, 1),
        (Group(0, 1, 24), Group(1, 4, 24), Group(2, 4, 24)),
        (
            Allocation("k", "shared", 0, 10, 2),
            Allocation("p", "shared", 20, 6, 2, staging=True),
            Allocation("s", "tensor", 8, 4),
            Allocation("o", "tensor", 0, 8),
        ),
    )
    return problem, solution
