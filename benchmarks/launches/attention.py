# pyright: basic, reportMissingImports=false
"""Launches of attention and linear attention."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Begin, Case, by, case, decays, described, given, positive


def tutorial_forward(batch: int, heads: int, tokens: int) -> Case:
    rows = batch * heads * tokens
    names = ("desc_q", "desc_k", "desc_v", "desc_o")
    arrays: dict[str, Array] = dict.fromkeys(names, ("f16", rows * 128, 0.5))
    return case(
        by(batch, heads, tokens),
        (ceil(tokens / 128), batch * heads),
        {"sm_scale": 0.5, "Z": batch, "H": heads, "N_CTX": tokens},
        **arrays,
        M=("f32", rows, "zeros"),
    )


def tutorial_described(batch: int, heads: int, tokens: int) -> Case:
    """The same with descriptors that the host makes."""
    one, rows = tutorial_forward(batch, heads, tokens), batch * heads * tokens
    arrays = {name.removeprefix("desc_"): array for name, array in one["arrays"].items()}
    made = {f"desc_{name}": (name, (rows, 128), (128, 128)) for name in "qkvo"}
    return described({**one, "arrays": arrays}, **made)


def tutorial_backward(batch: int, heads: int, tokens: int, width: int = 64) -> Case:
    rows = batch * heads * tokens
    inputs: dict[str, Array] = dict.fromkeys(("Q", "K", "V", "DO"), ("f16", rows * width, 0.5))
    made: dict[str, Array] = dict.fromkeys(("DQ", "DK", "DV"), ("f16", rows * width, "zeros"))
    strides = {"stride_z": heads * tokens * width, "stride_h": tokens * width, "stride_tok": width}
    return case(
        by(batch, heads, tokens),
        (tokens // 128, 1, batch * heads),
        {"sm_scale": 0.5, "H": heads, "N_CTX": tokens, **strides},
        **inputs,
        **made,
        M=("f32", rows, positive),
        D=("f32", rows, 0.5),
    )


def prefill(lengths: Sequence[int], heads: int = 32, shared: int = 4, width: int = 128) -> Case:
    """Sequences one behind the other; `shared` heads have the same keys."""
    tokens, keys = sum(lengths), heads // shared
    strides = {f"stride_{one}bs": heads * width for one in "qo"}
    strides |= {f"stride_{one}bs": keys * width for one in "kv"} | {f"stride_{one}h": width for one in "qkvo"}
    return case(
        f"{len(lengths)} sequences",
        (len(lengths), heads, ceil(max(lengths) / 128)),
        {"sm_scale": 1.4426950408889634 * width**-0.5, **strides},
        Q=("bf16", tokens * heads * width, 1.0),
        K=("bf16", tokens * keys * width, 1.0),
        V=("bf16", tokens * keys * width, 1.0),
        Out=("bf16", tokens * heads * width, "zeros"),
        B_Start_Loc=("i32", len(lengths), given([sum(lengths[:one]) for one in range(len(lengths))])),
        B_Seqlen=("i32", len(lengths), given(lengths)),
    )


def sparse(batch: int, tokens: int, heads: int = 64, shared: int = 16, blocks: int = 16) -> Case:
    """Each token attends to blocks of 64 keys, drawn among those before it."""
    keys = heads // shared

    def drawn(size: int) -> Any:
        import torch

        token = torch.arange(size) // (keys * blocks) % tokens
        return torch.floor(torch.rand(size) * (token // 64 + 1))

    return case(
        by(batch, tokens),
        (tokens, 1, batch * keys),
        {"scale": 128**-0.5, "TQ": tokens, "TK": tokens},
        q=("bf16", batch * tokens * heads * 128, 1.0),
        k=("bf16", batch * tokens * keys * 128, 1.0),
        v=("bf16", batch * tokens * keys * 128, 1.0),
        o=("bf16", batch * tokens * heads * 128, "zeros"),
        lse=("f32", batch * tokens * heads, "zeros"),
        block_indices=("i32", batch * tokens * keys * blocks, drawn),
    )


# --- linear attention and attention of the same project ---------------------------------------------------


WIDTH, CHUNK, HEADS = 128, 64, 16
"""Of keys and values, of a chunk of tokens, and how many heads."""


def linear(
    batch: int,
    tokens: int,
    grid: Callable[[int, int], Sequence[int]],
    inputs: str,
    outputs: str,
    more: Mapping[str, Array],
    heads: int = HEADS,
) -> Case:
    """`grid` of the number of chunks and of heads of all sequences; `inputs` and `outputs`: names such as
    "q k v", of arrays with a vector for each token and head."""
    size, chunks = batch * tokens * heads * WIDTH, ceil(tokens / CHUNK)
    arrays: dict[str, Array] = dict.fromkeys(inputs.split(), ("bf16", size, 0.3))
    arrays |= dict.fromkeys(outputs.split(), ("bf16", size, "zeros"))
    numbers = {"scale": WIDTH**-0.5, "T": tokens}
    return case(by(batch, tokens), grid(chunks, batch * heads), numbers, **{**arrays, **more})


def gate(batch: int, tokens: int, period: int = CHUNK, width: int = 1) -> Array:
    """Of each token and head, or of each element of its key."""
    inner = HEADS * width
    return "f32", batch * tokens * inner, decays(period, inner, tokens)


def states(batch: int, tokens: int, begin: Begin) -> Array:
    """One of each chunk and head."""
    return "bf16", batch * ceil(tokens / CHUNK) * HEADS * WIDTH**2, begin


def last(batch: int) -> Array:
    """States at the beginning or the end, of each head."""
    return "f32", batch * HEADS * WIDTH**2, "zeros"


def square(batch: int, tokens: int, type: str, begin: Begin) -> Array:
    """A row of a chunk's matrix for each token and head."""
    return type, batch * tokens * HEADS * CHUNK, begin


def chunk_h(b: int, t: int) -> Case:
    arrays = {"g": gate(b, t), "h": states(b, t, "zeros"), "h0": last(b), "ht": last(b)}
    return linear(b, t, lambda chunks, heads: (2, 2, heads), "k v", "", arrays)


def chunk_o(b: int, t: int) -> Case:
    arrays = {"g": gate(b, t), "h": states(b, t, 0.3)}
    return linear(b, t, lambda chunks, heads: (1, chunks, heads), "q k v", "o", arrays)


def chunk_backward(b: int, t: int) -> Case:
    """Gradients of decays come in two parts, one of each half of the keys."""
    arrays = {"g": gate(b, t), "h": states(b, t, 0.3), "dh": states(b, t, 0.3)}
    arrays["dg"] = ("f32", 2 * b * t * HEADS, "zeros")
    inputs, outputs = "q k v do dv dw", "dq dk"
    return linear(b, t, lambda chunks, heads: (2, chunks, heads), inputs, outputs, arrays)


def gated_delta_h(b: int, t: int) -> Case:
    arrays = {"g": gate(b, t), "h": states(b, t, "zeros"), "h0": last(b), "ht": last(b)}
    arrays["w"] = ("bf16", b * t * HEADS * WIDTH, 0.02)
    return linear(b, t, lambda chunks, heads: (2 * heads,), "k v", "v_new", arrays)


def gla_o(b: int, t: int) -> Case:
    arrays = {"g": gate(b, t, width=WIDTH), "h": states(b, t, 0.3), "A": square(b, t, "bf16", 0.3)}
    return linear(b, t, lambda chunks, heads: (2, chunks, heads), "q v", "o", arrays)


def kkt(b: int, t: int) -> Case:
    beta: Array = ("bf16", b * t * HEADS, positive)
    arrays = {"g": gate(b, t), "beta": beta, "A": square(b, t, "f32", "zeros")}
    return linear(b, t, lambda chunks, heads: (chunks, heads), "k", "", arrays)


def wy(b: int, t: int) -> Case:
    beta: Array = ("bf16", b * t * HEADS, positive)
    arrays = {"g": gate(b, t), "beta": beta, "A": square(b, t, "bf16", 0.3)}
    return linear(b, t, lambda chunks, heads: (chunks, heads), "k v", "w u", arrays)


def parallel(b: int, t: int, heads: int = 32, keys: int = 8) -> Case:
    """Attention; tiles of 128 queries."""
    small: Array = ("bf16", b * t * keys * WIDTH, 1.0)
    arrays: dict[str, Array] = {"k": small, "v": small, "lse": ("f32", b * t * heads, "zeros")}
    return linear(b, t, lambda _, heads: (1, ceil(t / 128), heads), "q", "o", arrays, heads)


def parallel_backward(b: int, t: int, heads: int = 8) -> Case:
    arrays: dict[str, Array] = {"lse": ("f32", b * t * heads, positive), "delta": ("f32", b * t * heads, 0.3)}
    return linear(b, t, lambda _, heads: (1, ceil(t / 128), heads), "q k v do", "dk dv", arrays, heads)


def simple_gla(b: int, t: int) -> Case:
    return linear(b, t, lambda _, heads: (1, ceil(t / 128), heads), "q k v", "o", {"g": gate(b, t, 128)})
