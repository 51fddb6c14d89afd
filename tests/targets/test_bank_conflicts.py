"""Bank conflicts of stores to swizzled tiles: counted, and avoided where the order of a thread's stores can."""

import pytest

from twill.targets.cuda.shared.bank_conflicts import Exchange, exchange, passes, swizzle, wavefronts


def test_pairs_of_floats_need_two_passes_and_no_more() -> None:
    """256 bytes of a warp, 128 in each pass: what is left is no conflict."""
    for width in (128, 64, 32):
        assert wavefronts(width, 4, exchange(width, 4)) == 2


def test_without_an_exchange_two_rows_meet_in_the_same_banks() -> None:
    assert wavefronts(128, 4, Exchange()) == 4
    assert wavefronts(64, 4, Exchange()) == 4


def test_lines_of_32_bytes_need_no_exchange() -> None:
    assert exchange(32, 4) == Exchange()


@pytest.mark.parametrize(("width", "chunks"), [(128, 8), (64, 4), (32, 2)])
def test_the_swizzle_moves_chunks_within_a_line(width: int, chunks: int) -> None:
    """Chunk c of row r goes to c ^ r * width / 128 mod the chunks of a line."""
    for row in range(8):
        for chunk in range(chunks):
            moved = chunk ^ (row * width // 128 % chunks)
            assert swizzle(width, row * width + chunk * 16) == row * width + moved * 16


def test_passes_are_counted_by_the_words_of_a_bank() -> None:
    assert passes(4, [4 * lane for lane in range(32)]) == 1
    assert passes(16, [16 * lane for lane in range(32)]) == 4
    assert passes(2, [128 * (lane % 4) + 2 * (lane // 4) for lane in range(32)]) == 4
    assert passes(4, [0] * 32) == 1
