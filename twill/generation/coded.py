"""The inputs whose loops are scheduled for generated code.

`for_code` takes the inputs of a form and the options of its lowering, and returns those that its loops are
read and costed with.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twill.inputs import Inputs
from twill.warp.plan import Options as Lowering

if TYPE_CHECKING:
    from twill.extract.frontend.persistent import Order

ORDERS: Mapping[bool | None, "Order"] = {True: "claimed", False: "mirrored"}
"""Of the programs of a persistent kernel, where the user says whether thread blocks claim them."""


def for_code(inputs: Inputs, lowering: Lowering) -> Inputs:
    """With the tiles that a kernel makes descriptors of itself, and the layouts, of generated code."""
    from twill.targets import EXACT_LAYOUTS

    together = lowering.pairs or lowering.cluster > 1
    order = "neighbours" if together else ORDERS.get(lowering.dynamic, inputs.order)
    return replace(
        inputs, order=order, pairs=lowering.pairs, own_descriptors=True, exact_layouts=EXACT_LAYOUTS
    )
