"""Tensor maps as kernels change them."""

import pytest

from twill.emulate import TensorMap
from twill.emulate.faults import Fault
from twill.emulate.tensormap import Raw, decode

MAP = TensorMap(4096, "f16", (64, 32), (128,), (64, 32), 128)


def test_sizes_and_strides_are_replaced() -> None:
    raw = Raw.read(MAP.encode()).changed("global_dim", 1, 7).changed("global_stride", 0, 256)
    found = decode(raw.changed("global_address", 0, 8192).write())
    assert (found.address, found.shape, found.strides) == (8192, (64, 7), (256,))


def test_a_size_of_nothing_faults_where_it_is_used() -> None:
    raw = Raw.read(MAP.encode()).changed("global_dim", 0, 0)
    with pytest.raises(Fault, match="no elements along a dimension"):
        decode(raw.write())
