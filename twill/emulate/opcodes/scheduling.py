"""Cluster launch control of sm_100a: a running cluster takes over the work of one that has not started (PTX
ISA, clusterlaunchcontrol).

A response's 16 bytes are opaque on a GPU; here they hold whether a launch was cancelled, and the index of its
first CTA.
"""

from functools import partial

import numpy as np

from twill.emulate.decode import Decoder, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Operation
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.bulk import arriving, destination, lane_value, launched, one_lane, shared_address
from twill.emulate.opcodes.lift import get, lift, put
from twill.emulate.opcodes.mbarrier import find_async
from twill.emulate.opcodes.memory import items, where
from twill.emulate.ptx.syntax import Instruction, Sink

BYTES = 16


@step("clusterlaunchcontrol.try_cancel")
def _try_cancel(one: Instruction, decoder: Decoder) -> Step:
    to, bar, line = where(one.operands[0], decoder), where(one.operands[1], decoder), one.line
    every = "multicast::cluster::all" in one.modifiers

    def issue(warp: Warp, lane: int) -> None:
        cta, first = shared_address(warp, lane_value(warp, to, lane, "the destination of a response"))
        _, place = shared_address(warp, lane_value(warp, bar, lane, "the address of an mbarrier"))
        targets = warp.cta.cluster.ctas if every else [cta]
        parts = [(one, find_async(warp, one.base + place)) for one in targets]
        for target, barrier in parts:
            destination(target, first, BYTES, warp.seen(), arriving(warp, barrier, line), BYTES)

        def act() -> None:
            data = response(warp.cta)
            for target, barrier in parts:
                target.shared.data[first : first + BYTES] = data
                barrier.complete(BYTES)

        operation = Operation(act, line, "a request for work")
        for _, barrier in parts:
            barrier.flying.append(operation)
        warp.cta.cluster.pending.add(operation)

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def response(cta: Cta) -> Array:
    """Takes the cluster that would start next. After a failure, a cluster must not ask again (PTX ISA)."""
    if cta.cluster.refused:
        raise Fault("clusterlaunchcontrol.try_cancel after a request that failed")
    waiting = cta.launch.waiting
    if not waiting:
        cta.cluster.refused = True
        return np.zeros(BYTES, np.uint8)
    return np.array([1, *waiting.pop(0)], np.uint32).view(np.uint8)


def _word(index: int, response: Array) -> Array:
    """A 32-bit word of each lane's response."""
    return response.view(np.uint32).reshape(32, 4)[:, index]


def _cancelled(response: Array) -> Array:
    return _word(0, response) != 0


@step("clusterlaunchcontrol.query_cancel")
def _query(one: Instruction, decoder: Decoder) -> Step:
    source = decoder.source(one.operands[1], "b128")
    kind = one.modifiers[1]

    if kind == "is_canceled":
        return lift(_cancelled, decoder.target(one.operands[0], "pred"), [source])
    if kind.startswith("get_first_ctaid::"):
        axis = "xyz".index(kind[-1]) + 1
        return lift(partial(_word, axis), decoder.target(one.operands[0], "u32"), [source])
    targets = [
        (i + 1, decoder.target(item, "u32"))
        for i, item in enumerate(items(one.operands[0])[:3])
        if not isinstance(item, Sink)
    ]

    def run(warp: Warp) -> None:
        for index, target in targets:
            put(warp, target, _word(index, get(warp, source)), warp.valid[source.code][source.index])

    return run


@step("st.async", "red.async")
def _remote(one: Instruction, decoder: Decoder) -> Step:
    """Stores to, or adds to, the memory of a CTA of the cluster; completes on its mbarrier."""
    from twill.emulate.opcodes.atomic import FUNCTIONS, joined
    from twill.emulate.opcodes.memory import collected, element, sources_of

    kind, line = one.modifiers[-1], one.line
    name = next((part for part in one.modifiers if part in FUNCTIONS), None)
    to, refs, bar = (
        where(one.operands[0], decoder),
        sources_of(one.operands[1], kind, decoder),
        where(one.operands[2], decoder),
    )

    def issue(warp: Warp, lane: int, data: Array) -> None:
        cta, first = shared_address(warp, lane_value(warp, to, lane, "the destination of a store"))
        barrier = find_async(warp, lane_value(warp, bar, lane, "the address of an mbarrier"))
        place = destination(cta, first, len(data), warp.seen(), arriving(warp, barrier, line), len(data))

        def act() -> None:
            held = cta.shared.data[place]
            cta.shared.data[place] = joined(name, kind, held.copy(), data) if name else data
            barrier.complete(len(data))

        launched(warp, barrier, Operation(act, line, f"a store of {len(data)} bytes"))

    def run(warp: Warp) -> None:
        data, valid = collected(warp, refs, element(kind))
        if not valid.all():
            raise Fault("a value that was never written, or that has not arrived, is stored to another CTA")
        rows = iter(data)
        one_lane(warp, lambda lane: issue(warp, lane, next(rows).copy()))

    return run
