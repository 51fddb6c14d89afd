"""Random problems that hypothesis can make smaller."""

from hypothesis import strategies as st

from twill.ir.problem import Problem
from twill.verify.tiny import tiny_problem

randoms = st.randoms(use_true_random=False)


def problems(most: int = 4) -> st.SearchStrategy[Problem]:
    """Loops of two to `most` operations, as `twill.verify.tiny` draws them."""
    return randoms.map(lambda random: tiny_problem(random, most))
