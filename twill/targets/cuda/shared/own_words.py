"""Tiles that lie in shared memory as threads would hold them in registers.

Each thread reads and writes only words of its own, so nothing synchronizes. Four words of a thread lie side
by side, those of neighbouring threads behind each other: one access takes 16 bytes, without bank conflicts.
"""

from dataclasses import dataclass

from twill.ir.loop import Tensor
from twill.ops.c import c_type
from twill.ops.values import element
from twill.targets.cuda.expressions import atom, plus
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements, held, packed, point
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.element_pairs import pair
from twill.targets.cuda.values.exchange import WHOLE, ColumnRange, each
from twill.warp.slot_tensors import bits

WORD, TOGETHER = 4, 4
"""Bytes of a word, and how many of a thread lie side by side."""


def words(type: Tensor) -> int:
    """How many words a thread has of a tile; 0 for one of other elements than of 32 bits, or of 16 in pairs,
    or of a number of words that is no multiple of `TOGETHER`."""
    size, count = bits(type.dtype), holding(type).registers
    found = count if size == 32 else count // 2 if size == 16 and packed(type) else 0
    return 0 if found % TOGETHER else found


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The elements of such a tile."""

    type: Tensor
    address: str
    threads: int

    def __call__(self, one: AnyPoint) -> str:
        """Raises ValueError where the element is another thread's."""
        register, pack = held("", self.type).register(one), packed(self.type)
        if pack:
            return f"un{pack}({self._word(f'{atom(register)} / 2', 'uint32_t')}, {atom(register)} % 2)"
        return self._word(register, c_type(self.type))

    def written(self, elements: Elements, span: ColumnRange = WHOLE) -> list[str]:
        """Assign some slices of the elements. Raises ValueError where another thread has them."""
        form, pack = holding(self.type), packed(self.type)
        rows = isinstance(form, Fragment) and form.axes == (0, 1) and form.bands == 1
        if not pack:
            loop = each(form.registers, span, 2 if rows else 0)
            return [UNROLL, f"{loop} {self._word('i_', c_type(self.type))} = {elements(point(form, 'i_'))};"]
        loop = each(form.registers // 2, span, 1 if rows else 0)
        low, high = (point(form, f"({plus('2 * i_', half)})") for half in (0, 1))
        value = pair(element(self.type), elements, low, high)
        return [UNROLL, f"{loop} {self._word('i_', 'uint32_t')} = {value};"]

    def _word(self, number: str, kind: str) -> str:
        i = atom(number)
        unit = f"({i} / {TOGETHER} * {self.threads} + thread.index) * {WORD * TOGETHER}"
        return f"shared_at<{kind}>({self.address} + {unit} + {i} % {TOGETHER} * {WORD})"
