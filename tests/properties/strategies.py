"""Random problems that hypothesis can make smaller."""

from hypothesis import strategies as st

from tests.properties.tiny import tiny_problem
from twill.ir.problem import Problem

randoms = st.randoms(use_true_random=False)


def problems(most: int = 4) -> st.SearchStrategy[Problem]:
    """Loops of two to `most` operations, as `tests.properties.tiny` draws them."""
    return randoms.map(lambda random: tiny_problem(random, most))
