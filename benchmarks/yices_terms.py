# pyright: basic
"""Terms of Yices, so that constraints read like the paper: disjunctions over arrays of literals,
implications, bounded sums.

A term is a Yices handle (an integer); arrays of terms are int32 arrays whose slices go to Yices without being
copied.
"""

import ctypes
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from twill.smt.yices_library import library

Terms = NDArray[np.int32]

_POINTER = ctypes.POINTER(ctypes.c_int32)


class Session:
    """One Yices context for linear integer arithmetic. Close it: Yices keeps one global table of terms."""

    def __init__(self) -> None:
        self.api = library()
        self.api.yices_init()
        self._c = self.api.libyices
        config = self.api.yices_new_config()
        self.api.yices_default_config_for_logic(config, "QF_LIA")
        self.api.yices_set_config(config, "mode", "one-shot")
        self.context = self.api.yices_new_context(config)
        self.zero, self.false = self._c.yices_int32(0), self._c.yices_false()

    def close(self) -> None:
        self.api.yices_exit()

    def booleans(self, *shape: int) -> Terms:
        """New Boolean unknowns."""
        kind, count = self.api.yices_bool_type(), int(np.prod(shape))
        return np.array([self._c.yices_new_uninterpreted_term(kind) for _ in range(count)], np.int32).reshape(
            shape
        )

    def negate(self, term: int) -> int:
        return self._c.yices_not(int(term))

    def any_of(self, terms: Iterable[int] | Terms) -> int:
        """The disjunction; false of nothing."""
        array = np.array(
            terms if isinstance(terms, np.ndarray) else list(terms), np.int32
        )  # Yices sorts it in place
        return self._c.yices_or(array.size, array.ctypes.data_as(_POINTER)) if array.size else self.false

    def rule(self, given: Iterable[int], then: int) -> None:
        """Assert: where all of `given` hold, so does `then`."""
        self.holds(self.any_of([*(self.negate(term) for term in given), then]))

    def holds(self, term: int) -> None:
        self._c.yices_assert_formula(self.context, int(term))

    def sum(self, weighted: Iterable[tuple[int, int]]) -> int:
        """The integer term: total weight of the Boolean terms that hold."""
        parts = [
            self._c.yices_ite(int(term), self._c.yices_int32(weight), self.zero) for term, weight in weighted
        ]
        array = np.array(parts, np.int32)
        return self._c.yices_sum(array.size, array.ctypes.data_as(_POINTER)) if parts else self.zero

    def at_most(self, total: int, bound: int) -> None:
        self.holds(self._c.yices_arith_leq_atom(total, self._c.yices_int32(bound)))

    def exactly(self, total: int, value: int) -> None:
        self.holds(self._c.yices_arith_eq_atom(total, self._c.yices_int32(value)))

    def check(self) -> bool:
        """The context is satisfiable."""
        match self.api.yices_check_context(self.context, None):
            case self.api.STATUS_SAT:
                return True
            case self.api.STATUS_UNSAT:
                return False
            case status:
                raise RuntimeError(f"Yices gave no result (status {status})")

    def values(self, terms: Terms) -> NDArray[np.bool_]:
        """Truth values in a model of a satisfiable context."""
        model, value = self.api.yices_get_model(self.context, 1), ctypes.c_int32()

        def truth(term: np.int32) -> bool:
            self._c.yices_get_bool_value(model, int(term), ctypes.byref(value))
            return bool(value.value)

        return np.array([truth(term) for term in terms.ravel()], bool).reshape(terms.shape)
