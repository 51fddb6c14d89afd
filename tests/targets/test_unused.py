"""Scalars without a reader are not printed."""

from twill.targets.cuda.unused import without_unused


def test_a_chain_that_nothing_reads_goes() -> None:
    lines = [
        "int32_t y;",
        "int32_t z;",
        "{",
        "    const int32_t a_ = int32_t(blockIdx.y);",
        "    const int64_t b_ = a_ * 2;",
        "    y = b_;",
        "    z = a_;",
        "}",
        "f(z);  // y is not read",
    ]
    assert without_unused(lines) == [
        "int32_t z;",
        "{",
        "    const int32_t a_ = int32_t(blockIdx.y);",
        "    z = a_;",
        "}",
        "f(z);  // y is not read",
    ]


def test_what_reads_itself_or_is_no_scalar_stays() -> None:
    lines = ["uint32_t count = 0;", "count = count + 1;", "float tile[4];", "int32_t n;", "n = 3;", "g(n);"]
    assert without_unused(lines) == lines
