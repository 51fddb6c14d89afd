"""Control flow, hints, and what a pipeliner or warp specialization has put there."""

from dataclasses import replace

from twill.ir.loop import Scalar
from twill.ops import rules
from twill.ops.memory import barrier_first
from twill.ops.row import Role, Row, Syntax


def _control(name: str, role: Role, *, early: bool = False) -> Row:
    """A row of an operation that is not scheduled itself."""
    return Row(name=name, kind="scalar", word=role, role=role, scheduled=False, syntax=Syntax(early=early))


STRUCTURE = (
    replace(_control("scf.for", "for"), counts=(3, 1 << 30, None), rule=rules.loop),
    _control("scf.while", "while"),
    Row(
        name="scf.if",
        kind="branch",
        word="branch",
        role="if",
        repeatable=True,
        counts=(1, 1, None),
        rule=rules.branch,
    ),
    _control("scf.yield", "yield", early=True),
    _control("scf.condition", "condition"),
    _control("tt.reduce.return", "combine"),
    _control("tt.scan.return", "combine"),
    _control("tt.return", "return", early=True),
    _control("ttg.warp_specialize", "specialize"),
    _control("ttng.subtiled_region", "subtiled"),
    _control("ttng.subtiled_region_yield", "yield"),
)


def _hint(name: str, string: str = "text") -> Row:
    return Row(name=name, kind="scalar", word="hint", syntax=Syntax(string=string))


HINTS = (
    replace(_hint("tt.assert", "message"), role="assert"),
    _hint("tt.print", "prefix"),
    Row(
        name="llvm.intr.assume",
        kind="scalar",
        word="hint",
        role="assume",
        meaning=lambda op, operands, environment: (),
    ),
    *(
        Row(
            name=name,
            kind="scalar",
            word="barrier",
            role="barrier",
            syntax=Syntax(words=("spaces",)),
            meaning=lambda op, operands, environment: (),
        )
        for name in ("ttg.barrier", "gpu.barrier")
    ),
)


def _made(name: str, does: str = "", *, syntax: Syntax | None = None) -> Row:
    """A row of what only compiler passes write, and what it does where that is a pipeliner."""
    return Row(
        name=name, kind="scalar", word="wait", scheduled=False, pipelined=does, syntax=syntax or Syntax()
    )


ASYNCHRONOUS = (
    _made("ttg.async_wait", "waits for asynchronous copies", syntax=Syntax(token=True)),
    _made("ttg.async_commit_group", "commits asynchronous copies", syntax=Syntax(token=True)),
    replace(_made("ttg.async_copy_global_to_local", syntax=Syntax(token=True)), role="async_copy"),
    _made("ttng.wait_barrier", "waits for a barrier"),
    _made("ttng.arrive_barrier", "arrives at a barrier"),
    _made("ttng.barrier_expect", "expects bytes at a barrier"),
    _made(
        "ttng.async_tma_copy_global_to_local",
        "copies asynchronously into a buffer",
        syntax=Syntax(operands=4, order=barrier_first),
    ),
    _made("ttng.async_tma_gather", syntax=Syntax(operands=4, order=barrier_first)),
    _made("ttng.async_tma_reduce", syntax=Syntax(words=("kind",))),
    _made("ttng.warp_group_dot_wait", "waits for an asynchronous MMA"),
    _made("ttng.tc_gen5_commit", "commits asynchronous MMAs"),
    _made("nvg.cluster_id", syntax=Syntax(implied=(Scalar("i32"),))),
    _made("gpu.thread_id", syntax=Syntax(words=("dimension",))),
    _made("gpu.block_id", syntax=Syntax(words=("dimension",))),
)

ROWS = (*STRUCTURE, *HINTS, *ASYNCHRONOUS)
