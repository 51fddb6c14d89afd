"""Types and encodings: their text to the values of `twill.ir.loop`.

Takes a cursor at a type and the encodings that the file has named; gives the type. Both spellings of
descriptors and of tensor memory (Triton 3.5 to 3.9) give the same values; an encoding without a class here is
kept as text. Raises TwillError at the offending token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from twill.extract.reader.syntax import Cursor, attribute
from twill.ir import loop as ir

SCALAR = re.compile(r"(?:[su]?i\d+|b?f\d+\w*|tf32|index|none)$")

COLUMN = 32
"""Bits of a column of tensor memory."""

SPACES = {"shared_memory": "smem", "tensor_memory": "tmem"}
"""Memory spaces by the last part of their attribute's name."""


@dataclass(slots=True)
class Types:
    """Reads types, with the attribute aliases of one file."""

    aliases: Mapping[str, int]
    """The token at which the value of each alias begins."""
    named: Mapping[str, int] = field(default_factory=dict[str, int])
    """The same of each type alias."""
    known: dict[tuple[str, int], ir.Encoding] = field(default_factory=dict[tuple[str, int], ir.Encoding])
    """Aliases already read, for elements of so many bits."""

    def type(self, cursor: Cursor) -> ir.Type:
        """One type."""
        token = cursor.token
        match token.kind, token.text:
            case "word", "tensor":
                cursor.next()
                return self.tensor(cursor)
            case "word", name if SCALAR.match(name):
                return ir.Scalar(cursor.next().text)
            case "word", "vector" | "memref" | "tuple" | "complex":
                return unknown(cursor)
            case "type", name if name in self.named:
                cursor.next()
                with cursor.nested():
                    return self.type(cursor.fork(self.named[name]))
            case "type", "!tt.ptr":
                cursor.next()
                return self.pointer(cursor)
            case "type", "!ttg.memdesc":
                cursor.next()
                return self.memdesc(cursor)
            case "type", "!ttg.async.token":
                cursor.next()
                return ir.Token()
            case "type", name if name.startswith("!tt.tensordesc"):
                cursor.next()
                return self.descriptor(cursor)
            case "type", _:
                return unknown(cursor)
            case "mark", "<":
                return self.elided(cursor)
            case _:
                cursor.fail("expected a type")
                raise AssertionError

    def elided(self, cursor: Cursor) -> ir.Type:
        """`<...>` without the name of the type, which an operation implies."""
        if cursor.after.kind != "dims":
            return self.descriptor(cursor) if cursor.after.text == "tensor" else self.pointer(cursor)
        ahead = cursor.fork(cursor.at)
        text = ahead.balanced()
        spaced = any(name in text for name in ("mem", "mutable"))
        return self.memdesc(cursor) if spaced else self.descriptor(cursor)

    def tensor(self, cursor: Cursor) -> ir.Tensor:
        """`<64x128xf16, #encoding>`."""
        cursor.expect("<")
        with cursor.nested():
            shape, dtype = self.shaped(cursor)
            encoding = self.encoding(cursor) if cursor.accept(",") else None
        cursor.expect(">")
        return ir.Tensor(shape, dtype, encoding)

    def pointer(self, cursor: Cursor) -> ir.Pointer:
        """`<f16>` or `<f16, 3>`."""
        cursor.expect("<")
        with cursor.nested():
            pointee = self.type(cursor)
            space = int(cursor.expect_kind("int", "an address space").text) if cursor.accept(",") else 1
        cursor.expect(">")
        return ir.Pointer(pointee, space)

    def descriptor(self, cursor: Cursor) -> ir.TensorDesc:
        """`<tensor<64x128xf16, #shared>>` (to Triton 3.6) or `<64x128xf16, #shared>`."""
        if cursor.after.text == "tensor":
            cursor.expect("<")
            cursor.next()
            block = self.tensor(cursor)
            cursor.expect(">")
        else:
            block = self.tensor(cursor)
        return ir.TensorDesc(block.shape, block.dtype, block.encoding)

    def memdesc(self, cursor: Cursor) -> ir.MemDesc:
        """`<64x128xf16, #shared, #smem, mutable, 2x64x128>`."""
        cursor.expect("<")
        with cursor.nested():
            shape, dtype = self.shaped(cursor)
            cursor.expect(",")
            encoding = self.encoding(cursor, width(dtype))
            cursor.expect(",")
            space = self.space(cursor)
            mutable, whole = False, shape
            while cursor.accept(","):
                if cursor.accept("mutable"):
                    mutable = True
                else:
                    whole = self.shape(cursor)
        cursor.expect(">")
        return ir.MemDesc(shape, dtype, encoding, space, mutable, whole)

    def shaped(self, cursor: Cursor) -> tuple[tuple[int, ...], ir.Type]:
        """`64x128xf16`."""
        return dimensions(cursor) if cursor.token.kind == "dims" else (), self.type(cursor)

    def shape(self, cursor: Cursor) -> tuple[int, ...]:
        """`3x64x128` without an element type."""
        leading = dimensions(cursor) if cursor.token.kind == "dims" else ()
        return (*leading, int(cursor.expect_kind("int", "a size").text))

    def space(self, cursor: Cursor) -> str:
        """`#smem`, `#ttng.tensor_memory`."""
        token = cursor.expect_kind("alias", "a memory space")
        name = token.text
        if name in self.aliases:
            name = cursor.tokens.items[self.aliases[name]].text
        return SPACES.get(name.rpartition(".")[2], name)

    def encoding(self, cursor: Cursor, bits: int = COLUMN) -> ir.Encoding:
        """An encoding or the alias of one, of elements of `bits` bits."""
        token = cursor.expect_kind("alias", "an encoding")
        name = token.text
        if cursor.sees("<") or "." in name:
            return parsed(self, cursor, name, bits)
        if (name, bits) not in self.known:
            if name not in self.aliases:
                raise cursor.error(f"`{name}` is not defined", token, help="is the file complete?")
            with cursor.nested():
                self.known[name, bits] = self.encoding(cursor.fork(self.aliases[name]), bits)
        return self.known[name, bits]

    def parameters(self, cursor: Cursor) -> Iterator[tuple[str, object]]:
        """`<{a = 1, b = [..]}, c = 2>`, the braces optional; encodings among the values are read as such."""
        cursor.expect("<")
        with cursor.nested():
            while not cursor.accept(">"):
                if cursor.sees("{", "}", ","):
                    cursor.next()
                    continue
                name = cursor.expect_kind("word", "a parameter").text
                cursor.expect("=")
                yield name, self.encoding(cursor) if cursor.token.kind == "alias" else attribute(cursor)


def unknown(cursor: Cursor) -> ir.UnknownType:
    """A type that nothing here reads, as written."""
    name = cursor.next().text
    return ir.UnknownType(name + cursor.balanced() if cursor.sees("<") else name)


def dimensions(cursor: Cursor) -> tuple[int, ...]:
    """`64x128x`."""
    token = cursor.next()
    sizes = token.text.split("x")[:-1]
    if not all(size.isdecimal() and len(size) < 10 for size in sizes):
        raise cursor.error("expected sizes known at compile time", token)
    return tuple(map(int, sizes))


# --- encodings --------------------------------------------------------------------------------------------


def parsed(types: Types, cursor: Cursor, name: str, bits: int) -> ir.Encoding:
    """The encoding `name`, whose parameters follow; as text where they are not those its class expects."""
    start = cursor.at
    build = ENCODINGS.get(name)
    if build and cursor.sees("<"):
        try:
            return build(Parameters(dict(types.parameters(cursor)), bits))
        except (KeyError, TypeError, ValueError):
            cursor.at = start
    return ir.UnknownEncoding(name + cursor.balanced() if cursor.sees("<") else name)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an encoding, by name. Each reader raises KeyError or TypeError where it does not
    fit."""

    values: Mapping[str, object]
    bits: int
    """Of an element."""

    def int(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name, default)
        if not isinstance(value, int):
            raise TypeError(name)
        return int(value)

    def flag(self, name: str) -> bool:
        return bool(self.values.get(name, False))

    def ints(self, name: str) -> tuple[int, ...]:
        return integers(self.values[name])

    def bases(self, name: str) -> ir.Bases:
        return tuple(map(integers, items(self.values.get(name, ()))))

    def parent(self) -> ir.Encoding:
        value = self.values["parent"]
        if not isinstance(value, ir.Encoding):
            raise TypeError("parent")
        return value


def items(value: object) -> tuple[object, ...]:
    """`value`, a tuple; raises TypeError where it is none."""
    if not isinstance(value, tuple):
        raise TypeError(value)
    return cast("tuple[object, ...]", value)


def integers(value: object) -> tuple[int, ...]:
    """`value` as a tuple of ints; raises TypeError where it is none."""
    numbers = tuple(item for item in items(value) if isinstance(item, int))
    if len(numbers) != len(items(value)):
        raise TypeError(value)
    return numbers


def col_stride(p: Parameters) -> int:
    """Triton 3.5 writes `unpacked = true`, a column for each element, where later ones write the stride."""
    return p.int("colStride", max(1, 32 // p.bits) if p.flag("unpacked") else 1)


def width(dtype: ir.Type) -> int:
    """Bits of an element, which every name of a type says; of other things than numbers, those of a
    column."""
    digits = re.search(r"\d+", dtype.name) if isinstance(dtype, ir.Scalar) else None
    return max(1, int(digits.group())) if digits else COLUMN


ENCODINGS: Mapping[str, Callable[[Parameters], ir.Encoding]] = {
    "#ttg.blocked": lambda p: ir.Blocked(
        p.ints("sizePerThread"), p.ints("threadsPerWarp"), p.ints("warpsPerCTA"), p.ints("order")
    ),
    "#ttg.slice": lambda p: ir.Slice(p.int("dim"), p.parent()),
    "#ttg.linear": lambda p: ir.Linear(
        p.bases("register"), p.bases("lane"), p.bases("warp"), p.bases("block"), p.flag("exact")
    ),
    "#ttg.nvidia_mma": lambda p: ir.NvidiaMma(
        (p.int("versionMajor"), p.int("versionMinor")), p.ints("warpsPerCTA"), p.ints("instrShape")
    ),
    "#ttg.dot_op": lambda p: ir.DotOperand(
        p.int("opIdx"), p.parent(), p.int("kWidth") if "kWidth" in p.values else None
    ),
    "#ttg.nvmma_shared": lambda p: ir.NvmmaShared(
        p.int("swizzlingByteWidth"), p.flag("transposed"), p.int("elementBitWidth"), p.flag("fp4Padded")
    ),
    "#ttg.swizzled_shared": lambda p: ir.SwizzledShared(
        p.int("vec"), p.int("perPhase"), p.int("maxPhase"), p.ints("order")
    ),
    "#ttg.shared_linear": lambda p: ir.SharedLinear(
        p.bases("offset"), p.bases("block"), p.int("alignment", 16)
    ),
    "#ttng.tensor_memory_encoding": lambda p: ir.TensorMemory(
        p.int("blockM"), p.int("blockN"), col_stride(p), p.flag("twoCTAs")
    ),
    "#ttng.tensor_memory_scales_encoding": lambda p: ir.TensorMemoryScales(),
}
"""Readers by name; CTA layouts are left out, since one cluster of one CTA is what is scheduled."""
