"""Vectors of words that lie apart in memory: the threads that load bring them through registers.

An asynchronous copy of a word writes it to shared memory by itself, where the words do not lie next to each
other: a cycle of shared memory each, when a warp that holds them would write 32 at a time. Where that would
keep shared memory for clearly longer than an iteration takes, threads load the words of the next iteration
behind those of this one, and write them when their slot is empty; elsewhere they would wait for these
accesses, and copies do not. (Scales of rows and columns of an fp8 product in tiles of 64 x 128 x 128 on an
H200: 0.232 ms by copies, 0.177 through registers.) Takes a program with its plan; gives the program.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from twill.ir.loop import Tensor
from twill.ir.program import WarpProgram
from twill.ir.statements import Pipelined, ProducerLoad, Statement, Statements, TileLoad, with_inner
from twill.warp.dataflow import EFFECTS, Code
from twill.warp.disjoint import may_write
from twill.warp.plan import Draft
from twill.warp.skipped import skipped
from twill.warp.tasks import Scheduled

ROOM = 12
"""Words of a thread in flight, beside its offsets (estimate)."""
FAR = 1.25
"""Times of an iteration that copies would keep shared memory for, at least. (Of kernels on an H200, those at
1.32 to 1.48 are faster by 5 to 30% through registers, those at 1.1 to 1.22 slower by up to 9%.)"""
FAR_ALONE = 1.4
"""The same in a group that computes too, and waits for what it loads between its MMAs. (At 1.43 to 1.94
faster by 8 to 29% where a launch fills the SMs, slower by 3% where it does not; at 1.39 slower by 5%.)"""


def through_registers(draft: Draft) -> Draft:
    """The program with the loads of such vectors changed."""
    assert draft.program is not None
    program, code = draft.program, draft.plan.kernel.code
    loops = {part.scheduled.loop.op.index: part.scheduled for part in draft.plan.loops}

    def change(group: WarpProgram, statements: Statements) -> Statements:
        return tuple(map(partial(one, group), statements))

    def one(group: WarpProgram, statement: Statement) -> Statement:
        if isinstance(statement, Pipelined):
            words, loop = _words(code, statement), loops[statement.op]
            known = words and _known(code, loop, words) and skipped(program, statement) is None
            pays = known and _pays(code, loop, group, words, program.resident_blocks)
            return with_inner(statement, partial(_changed, words)) if pays else statement
        return with_inner(statement, partial(change, group))

    groups = tuple(replace(group, body=change(group, group.body)) for group in program.groups)
    return replace(draft, program=replace(program, groups=groups))


def _words(code: Code, it: Pipelined) -> frozenset[int]:
    """The loads of a loop that bring vectors of words which lie apart, by the operation."""
    return frozenset(load.ops[-1] for load in _loads(it.steady) if load.ops[-1] in code.scattered)


def _loads(statements: Sequence[Statement]) -> Iterator[TileLoad]:
    for one in statements:
        if isinstance(one, ProducerLoad):
            yield from one.loads


def _known(code: Code, loop: Scheduled, words: frozenset[int]) -> bool:
    """Whether the words of the next iteration are in memory in this one: nothing in the loop may write
    them."""
    stores = [op for op in loop.loop.op.inner() if op.name in EFFECTS]
    return not any(may_write(code, store, code.ops[index]) for store in stores for index in words)


def _pays(code: Code, loop: Scheduled, group: WarpProgram, words: frozenset[int], blocks: int) -> bool:
    """Whether a thread has registers for the words, and copies would keep shared memory for far longer than
    an iteration takes."""
    lengths = [_length(code, index) for index in words]
    held = sum(-(-length // (32 * group.warps)) for length in lengths)
    if held > ROOM or loop.machine.shared is None:
        return False
    busy, interval = _busy(loop), loop.problem.resolution.cycles_per_unit * loop.solution.interval
    pace = max(interval, blocks * max(busy.values()))
    far = FAR_ALONE if group.multistage else FAR
    return blocks * (busy.get(loop.machine.shared.unit, 0) + sum(lengths)) > far * pace


def _busy(loop: Scheduled) -> Mapping[str, float]:
    """Machine cycles for which an iteration occupies each unit."""
    found = dict[str, float]()
    for reservation in (one for op in loop.problem.operations for one in op.reservations):
        cycles = loop.problem.resolution.cycles_per_unit * reservation.cycles
        found[reservation.unit] = found.get(reservation.unit, 0) + cycles
    return found


def _length(code: Code, index: int) -> int:
    tile = code.ops[index].result.type
    assert isinstance(tile, Tensor)
    return prod(tile.shape)


def _changed(words: frozenset[int], statements: Statements) -> Statements:
    return tuple(_with_words(words, one) if isinstance(one, ProducerLoad) else one for one in statements)


def _with_words(words: frozenset[int], one: ProducerLoad) -> ProducerLoad:
    loads = (replace(load, along=0, early=True) if load.ops[-1] in words else load for load in one.loads)
    return replace(one, loads=tuple(loads))
