# pyright: basic, reportMissingImports=false
"""Arrays of linear attention: vectors of tokens' heads, matrices of chunks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Begin, Case, by, case, decays, given
from benchmarks.launches.others.changed import starts

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Shape:
    """Sequences of one length, or one behind the other with `lengths`; `few`: heads of keys where they are
    fewer than `heads`."""

    batch: int = 4
    tokens: int = 4096
    heads: int = 16
    keys: int = 128
    values: int = 128
    chunk: int = 64
    few: int = 0
    lengths: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        return self.batch * self.tokens

    @property
    def pairs(self) -> int:
        """Of sequences and heads."""
        return (len(self.lengths) or self.batch) * self.heads

    @property
    def counts(self) -> Sequence[int]:
        """Chunks of each sequence."""
        return [ceil(one / self.chunk) for one in self.lengths or [self.tokens] * self.batch]

    @property
    def chunks(self) -> int:
        """Of one sequence, or of all of different lengths."""
        return sum(self.counts) if self.lengths else self.counts[0]

    def case(self, grid: Sequence[int], *arrays: Arrays, **numbers: float) -> Case:
        label = f"{len(self.lengths)} sequences" if self.lengths else by(self.batch, self.tokens)
        merged = {name: array for one in arrays for name, array in one.items()}
        scale = self.keys**-0.5
        return case(label, grid, {"scale": scale, "T": self.tokens, **numbers}, **merged)

    # --- arrays of every token and head -------------------------------------------------------------------

    def keyed(self, names: str, begin: Begin = 0.3, kind: str = "bf16") -> Arrays:
        """A vector of the width of keys."""
        return dict.fromkeys(names.split(), (kind, self.rows * self.heads * self.keys, begin))

    def shared(self, names: str, begin: Begin = 0.3, kind: str = "bf16") -> Arrays:
        """The same for the heads of keys."""
        return dict.fromkeys(names.split(), (kind, self.rows * self.few * self.keys, begin))

    def valued(self, names: str, begin: Begin = 0.3, kind: str = "bf16") -> Arrays:
        """A vector of the width of values."""
        return dict.fromkeys(names.split(), (kind, self.rows * self.heads * self.values, begin))

    def single(self, names: str, begin: Begin = 0.3, kind: str = "f32") -> Arrays:
        """A number."""
        return dict.fromkeys(names.split(), (kind, self.rows * self.heads, begin))

    def square(self, names: str, begin: Begin = 0.3, kind: str = "bf16", columns: int = 0) -> Arrays:
        """A row of the chunk's matrix."""
        size = self.rows * self.heads * (columns or self.chunk)
        return dict.fromkeys(names.split(), (kind, size, begin))

    def falling(self, name: str, width: int = 1, period: int = 0) -> Arrays:
        """Sums of logarithms of gates in each chunk."""
        inner, period = self.heads * width, period or self.chunk
        begin = falls(self.lengths, period, inner) if self.lengths else decays(period, inner, self.tokens)
        return {name: ("f32", self.rows * inner, begin)}

    # --- of chunks and sequences --------------------------------------------------------------------------

    def states(self, names: str, begin: Begin = 0.3, kind: str = "bf16") -> Arrays:
        """A matrix of each chunk and head."""
        size = sum(self.counts) * self.heads * self.keys * self.values
        return dict.fromkeys(names.split(), (kind, size, begin))

    def ends(self, names: str, begin: Begin = "zeros") -> Arrays:
        """A matrix of each sequence and head."""
        return dict.fromkeys(names.split(), ("f32", self.pairs * self.keys * self.values, begin))

    def places(self, indices: str = "", offsets: str = "") -> Arrays:
        """Where sequences begin; of each chunk the sequence and its number there, and where sequences' chunks
        begin."""
        found: dict[str, Array] = {}
        tables = {"cu_seqlens": starts(self.lengths)}
        if indices:
            tables[indices] = [
                one for i, count in enumerate(self.counts) for j in range(count) for one in (i, j)
            ]
        if offsets:
            tables[offsets] = starts(self.counts)
        for name, values in tables.items():
            found[name] = ("i32", len(values), given(values))
        return found


def several(*lengths: int, **sizes: int) -> Shape:
    """Sequences of these lengths."""
    return Shape(1, sum(lengths), lengths=lengths, **sizes)


def falls(lengths: Sequence[int], period: int, inner: int) -> Callable[[int], Any]:
    """Sums of logarithms of gates, which begin anew with every sequence."""

    def begin(size: int) -> Any:
        import torch

        parts = [decays(period, inner)(length * inner) for length in lengths]
        made = torch.cat(parts)
        assert len(made) == size
        return made

    return begin
