"""A tile of one element in shared memory: all threads read it, whatever row or column their layout gives them."""

from tests.kernels.programs import program
from twill.targets.hopper import source


def test_a_scale_of_a_whole_tile_is_read_where_it_lies() -> None:
    text = source(program("gauged"))
    begin = text.index("read_0_at = channel_whole_16.slot")
    line = next(line for line in text[begin:].splitlines() if "read_0[i_] =" in line)
    assert line.endswith("read_0[i_] = shared_at<float>(read_0_at);")
