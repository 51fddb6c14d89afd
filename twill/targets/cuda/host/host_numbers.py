"""The numbers that the launcher computes and passes to the kernel: products of its float32 arguments and
constants that several groups need.

Takes a `Program`. A parameter lies in constant memory, which every thread reads like a uniform register. Of
a product that each group computes, ptxas may keep a copy in a vector register instead: then an FFMA of a
tile reads three vector registers, whose bandwidth it shares with the accumulators of MMAs. (One H200, 128
heads of 8192, million SM cycles: causal attention in a persistent kernel 5.16 and 5.02, attention of two
sub-tiles 9.73 and 9.57. Where one group of eight warps computes alone, ptxas does well: fa_bwd 27.8 and
28.1 with a parameter. Causal attention of two loops, one behind the other: 5.146 and 5.139, and 4 bytes of
registers are spilled.)

Multiplications alone: each rounds once, on the host as on the device, where a compiler may fuse an addition
with the multiplication before it.
"""

from functools import cache

from twill.ir.loop import Op, Scalar, Value
from twill.ir.program import Program, WarpProgram
from twill.ir.slicing import backward_slice
from twill.ir.statements import Compute, Pipelined, walk
from twill.ops.table import lookup, role
from twill.ops.values import element
from twill.targets.cuda.names import c_name


@cache
def products(program: Program) -> tuple[int, ...]:
    """The multiplications, by `Op.index`, in order: those that several groups compute, and those that they
    need; none where a group has several loops."""
    if any(sum(isinstance(one, Pipelined) for one in walk(group.body)) > 1 for group in program.groups):
        return ()
    known = {value.id for value in program.function.args}
    found = list[int]()
    for op in program.function.walk():
        if role(op) == "constant":
            known.add(op.result.id)
        elif _is_product(op) and all(value.id in known for value in op.operands):
            known.add(op.result.id)
            found.append(op.index)
    needed = [_needed(program, group) for group in program.groups]
    return tuple(index for index in found if sum(index in one for one in needed) > 1)


def name(program: Program, value: Value) -> str:
    """Of the parameter that holds a product."""
    return f"product_{c_name(program.name(value.id))}"


def names(program: Program) -> list[str]:
    """Of all these parameters, in order."""
    return [name(program, program.op(index).result) for index in products(program)]


def parameters(program: Program) -> list[str]:
    """Their declarations in the kernel's signature."""
    return [f"float {one}" for one in names(program)]


def _is_product(op: Op) -> bool:
    """Of float32 numbers."""
    row = lookup(op.name)
    scalar = len(op.results) == 1 and isinstance(op.results[0].type, Scalar)
    return scalar and row is not None and row.word == "mul" and element(op.result.type) == "f32"


def _needed(program: Program, group: WarpProgram) -> frozenset[int]:
    """What a group computes, and what follows into it."""
    computed = {index for one in walk(group.body) if isinstance(one, Compute) for index in one.ops}
    read = (value for index in computed for value in program.op(index).operands)
    return frozenset(computed | backward_slice(read, program.maker).keys())
