"""The table of what became of every kernel."""

from types import SimpleNamespace

from twill.triton.report import Report, Row
from twill.triton.request import configuration, unaligned


def test_what_all_rows_of_a_kernel_share_is_left_out() -> None:
    rows = (
        Row("gemm", "BLOCK_M=128, BLOCK_N=256, num_warps=8", "twill", "verified", "1024", 1.12),
        Row("gemm", "BLOCK_M=128, BLOCK_N=128, num_warps=8", "triton", "Twill's is slower", "640", 0.9),
        Row("softmax", "BLOCK=1024, num_warps=4", "triton", "it has no dot"),
    )
    assert str(Report(rows)).splitlines() == [
        "kernel   runs    interval  speed  reason             configuration",
        "gemm     twill   1024      1.12   verified           BLOCK_N=256",
        "gemm     triton  640       0.90   Twill's is slower  BLOCK_N=128",
        "softmax  triton  -         -      it has no dot      BLOCK=1024, num_warps=4",
        "1 of 3 kernels on Twill's code",
    ]


def test_arguments_that_are_no_multiples_of_16_are_named() -> None:
    source = SimpleNamespace(
        signature={"a": "*fp16", "M": "i32", "K": "i32", "scale": "fp32", "BLOCK": "constexpr"},
        attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    assert unaligned(source) == ["K"]
    assert unaligned(SimpleNamespace(signature={"a": "*fp16"})) == []
    metadata = {"num_warps": 4, "num_stages": 3}
    assert configuration(list(source.signature), {(4,): 64}, metadata, unaligned(source)) == (
        "BLOCK=64, unaligned=K, num_warps=4, num_stages=3"
    )
