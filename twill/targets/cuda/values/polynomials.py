"""Sums of products of scalars: what addresses, coordinates and bounds are made of.

Takes scalar values of a function; gives `Polynomial`s over atoms, which are arguments and other values that
are not taken apart. They are compared, added, multiplied and divided by a product.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd, prod
from typing import TypeAlias

from twill.ir.loop import Op, Value
from twill.ops.table import role

SIGN_EXTENSION = "arith.extsi"
"""An operation that address arithmetic looks through."""


@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """A scalar value by its id; where `modulus` is given, the remainder of `start` by it."""

    value: int = -1
    start: "Polynomial | None" = field(default=None, compare=True)
    modulus: "Polynomial | None" = None


Product: TypeAlias = tuple[Atom, ...]
"""Sorted, as often as each is multiplied."""


@dataclass(frozen=True, slots=True, order=True)
class Polynomial:
    """The sum of products, each times a number that is not 0; sorted."""

    terms: tuple[tuple[Product, int], ...] = ()

    def __add__(self, other: "Polynomial") -> "Polynomial":
        return _collected([*self.terms, *other.terms])

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + other * number(-1)

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        return _collected([(_key((*a, *b)), m * n) for a, m in self.terms for b, n in other.terms])

    @property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(one for product, _ in self.terms for one in product)

    @property
    def values(self) -> frozenset[int]:
        """The values that it is computed from."""
        found = set[int]()
        for one in self.atoms:
            parts = [part for part in (one.start, one.modulus) if part is not None]
            found |= {value for part in parts for value in part.values} if parts else {one.value}
        return frozenset(found)

    def parted(self, first: Callable[["Polynomial"], bool]) -> "tuple[Polynomial, Polynomial]":
        """The terms for which `first` holds, and the others."""
        terms = [(Polynomial((term,)), term) for term in self.terms]
        chosen = tuple(term for one, term in terms if first(one))
        return Polynomial(chosen), Polynomial(tuple(term for term in self.terms if term not in chosen))

    @property
    def constant(self) -> int | None:
        """Its value, where it has no atoms."""
        return None if self.atoms else sum(count for _, count in self.terms)

    def divided(self, by: "Polynomial") -> "tuple[Polynomial, Polynomial]":
        """Quotient and rest, where `by` is one product times a number: the terms that are its multiples, and
        the others."""
        ((factor, number),) = by.terms
        quotient, rest = list[tuple[Product, int]](), list[tuple[Product, int]]()
        for product, count in self.terms:
            left = _without(product, factor)
            if left is None or count % number:
                rest.append((product, count))
            else:
                quotient.append((left, count // number))
        return _collected(quotient), _collected(rest)

    def divisor(self, of: Callable[[Atom], int]) -> int:
        """A common divisor of its values, given one of each atom; 0 for 0."""
        return gcd(*(abs(count) * prod(map(of, product)) for product, count in self.terms))


def number(n: int) -> Polynomial:
    return Polynomial((((), n),)) if n else Polynomial()


def atom(one: Atom) -> Polynomial:
    return Polynomial((((one,), 1),))


def _key(product: Product) -> Product:
    return tuple(sorted(product, key=repr))


def _collected(terms: list[tuple[Product, int]]) -> Polynomial:
    found = dict[Product, int]()
    for product, count in terms:
        found[product] = found.get(product, 0) + count
    return Polynomial(tuple(sorted(((p, n) for p, n in found.items() if n), key=repr)))


def _without(product: Product, factor: Product) -> Product | None:
    left = list(product)
    for one in factor:
        if one not in left:
            return None
        left.remove(one)
    return tuple(left)


@dataclass(frozen=True, slots=True)
class Scalars:
    """Takes scalars apart."""

    makers: Callable[[Value], Op | None]
    kept: frozenset[int]
    """Values that code has at hand, so that it need not compute them."""
    arguments: frozenset[int]
    found: dict[int, Polynomial] = field(default_factory=dict[int, Polynomial])

    def of(self, value: Value) -> Polynomial:
        """A value at hand is taken apart only into arguments and numbers: what else it is made of may not be
        at hand."""
        if value.id not in self.found:
            whole = atom(Atom(value.id))
            made = self._made(value)
            known = made is not None and all(one.value in self.arguments for one in made.atoms)
            self.found[value.id] = (
                made if made is not None and (known or value.id not in self.kept) else whole
            )
        return self.found[value.id]

    def _made(self, value: Value) -> Polynomial | None:
        maker = self.makers(value)
        match role(maker) if maker else None:
            case "constant":
                assert maker
                text = maker.attributes.get("value")
                return number(text) if isinstance(text, int) and not isinstance(text, bool) else None
            case "add":
                assert maker
                return self.of(maker.operands[0]) + self.of(maker.operands[1])
            case "subtract":
                assert maker
                return None if self._remains(maker) else self._difference(maker)
            case "multiply":
                assert maker
                return self.of(maker.operands[0]) * self.of(maker.operands[1])
            case "integer_cast" if maker is not None and maker.name in (SIGN_EXTENSION, "arith.index_cast"):
                return self.of(maker.operands[0])
            case _:
                return None

    def _difference(self, op: Op) -> Polynomial:
        return self.of(op.operands[0]) - self.of(op.operands[1])

    def _remains(self, op: Op) -> bool:
        """Whether a difference is a remainder, `a - a / b * b`: written out, it would be a sum in which
        something is subtracted, which no coordinate of a tensor map may be."""
        product = self.makers(op.operands[1])
        if product is None or role(product) != "multiply":
            return False
        pairs = (product.operands, product.operands[::-1])
        return any(self._divides(quotient, (op.operands[0], by)) for quotient, by in pairs)

    def _divides(self, value: Value, numbers: tuple[Value, ...]) -> bool:
        maker = self.makers(value)
        own = maker.operands if maker is not None and role(maker) == "divide" else ()
        return tuple(one.id for one in own) == tuple(one.id for one in numbers)


def text(polynomial: Polynomial, names: Callable[[int], str], type: str) -> str:
    """As a C expression of a type of integers, given those of values."""

    def one(found: Atom) -> str:
        if found.start is None or found.modulus is None:
            return f"{type}({names(found.value)})"
        return f"({text(found.start, names, type)}) % ({text(found.modulus, names, type)})"

    def product(factors: Product, count: int) -> str:
        parts = [*(f"({one(each)})" if each.start else one(each) for each in factors)]
        return " * ".join([*parts, *([str(count)] if count != 1 or not parts else [])])

    return " + ".join(product(*term) for term in polynomial.terms) or "0"
