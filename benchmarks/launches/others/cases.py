# pyright: basic, reportMissingImports=false
"""The launches of kernels off the list of reports/wild.md, that `python benchmarks/wild_gpu.py measure BUILDS
benchmarks/launches/others/cases.py OUT` compares.
"""

from collections.abc import Mapping, Sequence

from benchmarks.launches.arrays import Case
from benchmarks.launches.others import (
    adapters,
    assorted,
    breadth,
    chunked,
    configured,
    convolutions,
    decoding,
    delta,
    dense,
    every_key,
    everyday,
    further,
    layers,
    linear,
    other_tiles,
    pages,
    per_chunk,
    quantized,
    rendered,
    retiled,
    routes,
    served,
    singular,
    sought,
    sparse,
    states,
    symmetric,
    trained,
    tuned,
    unseen,
    untried,
    unusual,
    various,
    wider,
)

TOPICS = (
    adapters,
    assorted,
    breadth,
    chunked,
    configured,
    convolutions,
    decoding,
    delta,
    dense,
    every_key,
    everyday,
    further,
    layers,
    linear,
    other_tiles,
    pages,
    per_chunk,
    quantized,
    rendered,
    retiled,
    routes,
    served,
    singular,
    sought,
    sparse,
    states,
    symmetric,
    trained,
    tuned,
    unseen,
    untried,
    unusual,
    various,
    wider,
)
CASES: Mapping[str, Sequence[Case]] = {
    name: launches for topic in TOPICS for name, launches in topic.CASES.items()
}
