"""mma.sync on operands of which threads hold more neighbours along K than a register has."""

from tests.kernels.programs import cuda


def test_two_words_side_by_side_are_both_halves_of_an_instruction() -> None:
    """Where K ends with the neighbours of four threads."""
    text = cuda("scant")
    assert "warp_mma_short<float, 2, 2, 4>(" in text
    assert "warp_mma<" not in text
