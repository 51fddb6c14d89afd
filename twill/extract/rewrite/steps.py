"""The rewrites of a module in their order, each from a `Module` to a `Module`.

Before them a kernel is as Triton wrote it; behind them as loops are scheduled and lowered.
"""

from collections.abc import Callable
from functools import partial

from twill.extract.rewrite.carried.carried_layouts import carried_as_added
from twill.extract.rewrite.carried.carried_transposes import carried_as_computed
from twill.extract.rewrite.carried.computed_ahead import computed_in_place
from twill.extract.rewrite.carried.counted_apart import counted_apart
from twill.extract.rewrite.carried.guarded_prefetches import prepared_in_place
from twill.extract.rewrite.carried.induction import from_iteration
from twill.extract.rewrite.carried.own_numbers import own_numbers
from twill.extract.rewrite.carried.own_offsets import own_offsets
from twill.extract.rewrite.carried.pointer_offsets import pointer_offsets
from twill.extract.rewrite.carried.prefetched import loaded_in_place
from twill.extract.rewrite.control.early_return import structured
from twill.extract.rewrite.control.flattened_loops import unflattened
from twill.extract.rewrite.control.inline_assembly import assembled_apart
from twill.extract.rewrite.control.predication import predicated
from twill.extract.rewrite.control.single_iteration import in_loops
from twill.extract.rewrite.control.split_branches import split_branches
from twill.extract.rewrite.layouts.exchanged_once import exchanged_once
from twill.extract.rewrite.layouts.lanes_down_rows import lanes_down_rows
from twill.extract.rewrite.layouts.literal_layouts import literal_layouts
from twill.extract.rewrite.layouts.narrow_exchanges import narrowed
from twill.extract.rewrite.layouts.narrow_extremes import extremes_narrowed
from twill.extract.rewrite.layouts.register_transposes import in_registers
from twill.extract.rewrite.layouts.reshaped_broadcasts import broadcast_last
from twill.extract.rewrite.layouts.rows_as_read import rows_as_read
from twill.extract.rewrite.layouts.stored_lines import stored_lines
from twill.extract.rewrite.layouts.whole_reductions import by_dimensions
from twill.extract.rewrite.loads.copied_loads import copied_loads
from twill.extract.rewrite.loads.device_maps import on_the_device
from twill.extract.rewrite.loads.early_loads import loaded_early
from twill.extract.rewrite.loads.invariant import hoisted
from twill.extract.rewrite.loads.late_loads import loaded_late
from twill.extract.rewrite.loads.loads_as_read import loaded_as_read
from twill.extract.rewrite.loads.staged_loads import staged_loads
from twill.extract.rewrite.loads.stored_values import forwarded
from twill.extract.rewrite.loads.turned_loads import turned_loads
from twill.extract.rewrite.mma.accumulator_rows import with_own_rows
from twill.extract.rewrite.mma.fresh_accumulators import fresh
from twill.extract.rewrite.mma.kept_accumulators import kept
from twill.extract.rewrite.mma.narrow_operands import operands_narrowed
from twill.extract.rewrite.mma.native_widths import native_widths
from twill.extract.rewrite.mma.shared_operands import staged_operands
from twill.extract.rewrite.mma.shared_scales import shared_scales
from twill.extract.rewrite.mma.staged_fragments import staged_fragments
from twill.extract.rewrite.mma.staged_tiles import staged_tiles
from twill.extract.rewrite.mma.tensor_copies import without_tensor_copies
from twill.extract.rewrite.mma.unpacked_operands import unpacked_operands
from twill.extract.rewrite.mma.view_accumulators import apart
from twill.extract.rewrite.remainders import remainders_once
from twill.extract.rewrite.warps.fewer_warps import lessened, needed_warps
from twill.extract.rewrite.warps.narrow_modules import WARPS, widened
from twill.ir.loop import Module

Rewrite = Callable[[Module], Module]


def rewritten(module: Module, *, everywhere: bool, warps: int | None, late: bool) -> Module:
    """The module in the form that loops are scheduled in. `everywhere`: every tile is held as laid out.
    `late`: what can be is loaded behind loops. `warps` hold no copies of accumulators which have columns for
    them."""
    for rewrite in steps(everywhere=everywhere, warps=warps, late=late):
        module = rewrite(module)
    return module


def steps(*, everywhere: bool, warps: int | None, late: bool) -> tuple[Rewrite, ...]:
    """With the options of `rewritten`."""
    return (
        # operations and warps that the others know
        assembled_apart,
        partial(_with_needed_warps, most=warps),
        # loops, and what lies between them
        shared_scales,
        unflattened,
        forwarded,
        remainders_once,
        # layouts
        apart,
        by_dimensions,
        broadcast_last,
        in_registers,
        narrowed,
        extremes_narrowed,
        exchanged_once,
        # MMAs
        operands_narrowed,
        native_widths,
        carried_as_computed,
        staged_operands,
        unpacked_operands,
        partial(widened, warps=warps or WARPS),
        with_own_rows,
        fresh,
        # branches
        structured,
        prepared_in_place,
        predicated,
        hoisted,
        kept,
        split_branches,
        in_loops,
        predicated,
        # what iterations hand on
        computed_in_place,
        pointer_offsets,
        from_iteration,
        counted_apart,
        loaded_in_place,
        rows_as_read,
        without_tensor_copies,
        # loads
        turned_loads,
        copied_loads,
        own_offsets,
        own_numbers,
        lanes_down_rows,
        carried_as_added,
        loaded_as_read,
        loaded_late if late else loaded_early,
        on_the_device,
        # tiles that are held as they are laid out, or in shared memory
        partial(_laid_out, everywhere=everywhere),
        stored_lines,
        staged_loads,
        staged_tiles,
        staged_fragments,
    )


def _with_needed_warps(module: Module, most: int | None) -> Module:
    needed = needed_warps(module)
    return lessened(module, min(needed, most or needed))


def _laid_out(module: Module, everywhere: bool) -> Module:
    return literal_layouts(module, everywhere=everywhere, vectors=module.num_warps < WARPS)
