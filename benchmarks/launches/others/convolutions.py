# pyright: basic, reportMissingImports=false
"""Launches of convolutions of images, as products of gathered pixels with weights."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, ragged


def output(size: int, kernel: int, step: int, padding: int, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // step + 1


def images(
    image: Sequence[int],
    out: int,
    tile: Sequence[int],
    type: str,
    groups: int = 1,
    kernel: int = 3,
    step: int = 1,
    padding: int = 1,
    dilation: int = 1,
) -> Case:
    """What both libraries' kernels take. `image`: number, channels, height and width; `tile`: pixels and
    channels of the output."""
    count, channels, height, width = image
    rows, columns = (output(one, kernel, step, padding, dilation) for one in (height, width))
    each = channels // groups * kernel**2
    arrays: dict[str, Array] = {
        "input_pointer": (type, count * channels * height * width, 0.5),
        "weight_pointer": (type, out * each, 0.5),
        "output_pointer": (type, count * out * rows * columns, "zeros"),
    }
    numbers = {"input_height_stride": width, "output_height_stride": columns}
    grid = ceil(count * rows * columns / tile[0]), ceil(out // groups / tile[1]), groups
    one = case(by(*image, out), grid, numbers | {"out_height": rows, "out_width": columns}, **arrays)
    one["numbers"] |= {"weight_height_stride": kernel}
    return one


def gems(image: Sequence[int], out: int, tile: Sequence[int], type: str, **how: int) -> Case:
    """With a bias for each channel."""
    count, channels, height, width = image
    one = images(image, out, tile, type, **how)
    rows, columns = one["numbers"]["out_height"], one["numbers"]["out_width"]
    one["numbers"] |= {"in_n": count, "input_height": height, "input_width": width, "out_c": out}
    one["numbers"] |= {"input_n_stride": channels * height * width, "input_c_stride": height * width}
    one["numbers"] |= {"weight_n_stride": channels // how.get("groups", 1) * 9, "weight_c_stride": 9}
    one["numbers"] |= {"output_n_stride": out * rows * columns, "output_c_stride": rows * columns}
    one["arrays"]["bias_pointer"] = (type, out, 0.5)
    return one


def bench(image: Sequence[int], out: int, tile: Sequence[int], type: str, **how: int) -> Case:
    count, channels, height, width = image
    one = images(image, out, tile, type, **how)
    rows, columns = one["numbers"]["out_height"], one["numbers"]["out_width"]
    square = how.get("kernel", 3) ** 2
    one["numbers"] |= {"batch_dim": count, "in_feat_dim": channels, "out_feat_dim": out}
    one["numbers"] |= {"in_height": height, "in_width": width}
    one["numbers"] |= {"input_batch_stride": channels * height * width}
    one["numbers"] |= {"input_in_feat_stride": height * width}
    one["numbers"] |= {"weight_out_feat_stride": channels // how.get("groups", 1) * square}
    one["numbers"] |= {"weight_in_feat_stride": square}
    one["numbers"] |= {"output_batch_stride": out * rows * columns}
    one["numbers"] |= {"output_out_feat_stride": rows * columns}
    return one


def blocked(count: int, size: int = 56, channels: int = 128) -> Case:
    """Channels in blocks of 32, each an image of its own; sizes are constants."""
    pixels = count * size**2
    steps = {"stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1, "dil_h": 1, "dil_w": 1}
    return case(
        by(count, channels, size, size),
        (ceil(pixels / 128) * ceil(channels / 64),),
        {"N": count, "M_total": pixels, **steps},
        X=("f16", pixels * channels, 0.5),
        W=("f16", channels * 9 * channels, 0.5),
        BIAS=("f16", channels, 0.5),
        Y=("f16", pixels * channels, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "aiter_conv3x3": (blocked(32), ragged(blocked(1))),
    "gems_conv_f32": (
        gems((32, 128, 64, 64), 128, (64, 32), "f32", groups=2, step=2),
        ragged(gems((3, 128, 10, 32), 100, (64, 32), "f32", groups=2, step=2)),
    ),
    "tb_conv2d": (
        bench((32, 64, 64, 64), 128, (128, 64), "f16"),
        ragged(bench((3, 48, 5, 16), 80, (128, 64), "f16")),
    ),
    "tb_conv2d_1x1": (
        bench((64, 256, 64, 64), 256, (128, 64), "f16", groups=4, kernel=1, step=2, padding=0),
        ragged(bench((3, 192, 9, 32), 80, (128, 64), "f16", groups=4, kernel=1, step=2, padding=0)),
    ),
    "tb_conv2d_tf32": (
        bench((32, 64, 64, 64), 128, (64, 32), "f32"),
        ragged(bench((3, 48, 5, 16), 80, (64, 32), "f32")),
    ),
    "x_gems_conv_g1": (
        gems((32, 64, 64, 64), 128, (128, 64), "f16", padding=2, dilation=2),
        ragged(gems((3, 64, 5, 16), 100, (128, 64), "f16", padding=2, dilation=2)),
    ),
}
"""Launches by the kernel's name."""
