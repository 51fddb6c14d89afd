"""The launches of other projects' kernels: those that the report has."""

from benchmarks.launches.cases import CASES
from benchmarks.launches.products import routed


def test_names_of_numbers_and_arrays_are_apart():
    for name, cases in CASES.items():
        for case in cases:
            assert not set(case["numbers"]) & set(case["arrays"]), name
            assert all(extent > 0 for extent in case["grid"]), name
            assert all(size > 0 for _, size, _ in case["arrays"].values()), name


def test_tokens_of_an_expert_fill_whole_blocks():
    places, experts = routed(tokens=50, experts=7, top=2, block=16)
    assert len(places) == 16 * len(experts)
    assert sorted(place for place in places if place < 100) == list(range(100))
    assert experts == sorted(experts)
    per_block = [set(places[16 * i : 16 * i + 16]) - {100} for i in range(len(experts))]
    assert all(per_block)
    # both experts of a token are different ones
    expert = {place: experts[i] for i, block in enumerate(per_block) for place in block}
    assert all(expert[2 * token] != expert[2 * token + 1] for token in range(50))
