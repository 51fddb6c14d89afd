"""Loads that the thread blocks of a cluster share: which can be, what a launch must have for it, and how the
blocks wait for each other."""

from dataclasses import replace

import pytest

from tests.kernels.programs import CLUSTERED, changed, cuda, loops, program
from tests.simulate.mutate import mutants
from twill.diagnostics import TwillError
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.ir.statements import Advance, ConsumerRelease, ConsumerWait, ProducerLoad
from twill.simulate.explore import adversaries, explore, same, synchronizations
from twill.simulate.protocol import HazardError, Protocol, State
from twill.targets.blackwell import TARGET as BLACKWELL
from twill.warp.lower import lower
from twill.warp.plan import Options


def shared(kernel: str) -> set[str]:
    """The tiles that are loaded in halves."""
    channels = program(kernel).channels
    return {tensor.name for one in channels for tensor in one.tensors if tensor.multicast is not None}


def even(kernel: str) -> int:
    """How many numbers a launcher checks, besides the size of the grid."""
    return cuda(kernel).count("% 2) clustered = false")


@pytest.mark.parametrize(
    ("kernel", "tiles"),
    [
        ("gemm", {"y"}),
        ("gemm_persistent", {"y"}),
        ("gemm_reduction", {"y"}),
        ("fa_fwd", {"y_8", "z"}),
        ("chunked", {"x", "y", "z"}),
    ],
)
def test_tiles_that_do_not_depend_on_the_program_are_shared(kernel: str, tiles: set[str]) -> None:
    assert shared(f"{kernel}_clustered") == tiles


def test_numbers_of_tiles_must_be_even_where_programs_follow_from_them() -> None:
    assert even("gemm_clustered") == even("gemm_persistent_clustered") == even("neighbours_clustered") == 1
    assert even("matmul_e4m3_clustered") == even("fa_fwd_clustered") == 0


def test_a_kernel_made_persistent_shares_the_same_tiles() -> None:
    """Its tiles keep their order in every wave, and its numbers of tiles are computed in the loop over them."""
    inputs = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", persistent=True)
    kept = ("reports/schedules/gemm.persistent.for.0.for.0.json",)
    made = generate(inputs, GenerateOptions(schedules=kept, check=False, lowering=Options(cluster=2)))
    channel = made.program.channels[0]
    assert [tensor.multicast for tensor in channel.tensors] == [None, 0]
    assert len(made.program.even) == 1


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("fa_fwd_causal", "they may load it differently often"),
        ("straight", "coordinates follow from the program's number along x"),
        ("alternating", "share no load"),
        ("pointers", "there is none"),
    ],
)
def test_kernels_with_nothing_to_share_are_refused(kernel: str, reason: str) -> None:
    with pytest.raises(TwillError, match=reason) as refused:
        changed(kernel, Options(cluster=2))
    assert refused.value.location
    assert "--cluster" in (refused.value.help or "")


def test_tiles_that_are_claimed_one_by_one_are_not_shared() -> None:
    with pytest.raises(TwillError, match="claim"):
        changed("gemm_persistent", Options(cluster=2, dynamic=True))


def test_tensor_memory_has_pairs_instead() -> None:
    with pytest.raises(TwillError, match="MMAs of pairs"):
        lower(*loops("gemm.sm100"), BLACKWELL, Options(cluster=2))


@pytest.mark.parametrize("kernel", CLUSTERED)
def test_no_interleaving_of_two_blocks_goes_wrong(kernel: str) -> None:
    for trips in range(3):
        explore(program(kernel), same(trips, 3), 5_000)
    assert adversaries(program(kernel), same(9, 3)) > 20


@pytest.mark.parametrize("kind", [ConsumerRelease, ConsumerWait, ProducerLoad, Advance])
def test_a_missing_statement_is_caught_in_both_blocks(kind: type) -> None:
    made = list(mutants(program("neighbours_clustered"), lambda one: () if isinstance(one, kind) else None))
    assert made
    for where, mutant in made:
        assert wrong(mutant), where


def wrong(mutant: Program) -> bool:
    """Whether some order of the groups of both blocks ends badly."""
    try:
        for trips in (1, 6):
            adversaries(mutant, same(trips, 5))
    except HazardError:
        return True
    return False


# --- two blocks, step by step -----------------------------------------------------------------------------


class Both:
    """The protocol of gemm's channel in both blocks, and where it stands."""

    def __init__(self) -> None:
        made = program("gemm_clustered")
        self.protocols = [Protocol.of(made, block, 2) for block in range(2)]
        self.state: State = self.protocols[0].initial()
        (self.channel,) = made.channels
        self.actions = dict(synchronizations(made, same(6)))
        self.done = {(block, group): 0 for block in range(2) for group in self.actions}

    def ready(self, block: int, group: int) -> bool:
        action = self.actions[group][self.done[block, group]]
        return self.protocols[block].ready(self.state, group, action)

    def step(self, block: int, group: int) -> None:
        action = self.actions[group][self.done[block, group]]
        self.state = self.protocols[block].after(self.state, group, action)
        self.done[block, group] += 1


def test_a_slot_is_full_once_both_blocks_have_loaded() -> None:
    both = Both()
    (consumer,) = both.channel.consumers
    both.step(0, both.channel.producer)
    assert not both.ready(0, consumer)
    assert not both.ready(1, consumer)
    both.step(1, both.channel.producer)
    assert both.ready(0, consumer)
    assert both.ready(1, consumer)


def test_a_slot_is_filled_again_once_consumers_of_both_blocks_have_released_it() -> None:
    both = Both()
    producer, (consumer,) = both.channel.producer, both.channel.consumers
    for _ in range(both.channel.depth):
        for block in range(2):
            both.step(block, producer)
    while both.ready(0, consumer):
        both.step(0, consumer)
    assert not both.ready(0, producer)
    assert not both.ready(1, producer)
    while not both.ready(0, producer):
        both.step(1, consumer)
    assert both.ready(1, producer)


def test_a_block_that_loads_for_the_other_too_early_is_caught() -> None:
    """Without waiting for the consumers of the other block."""
    both = Both()
    for _ in range(both.channel.depth):
        for block in range(2):
            both.step(block, both.channel.producer)
    with pytest.raises(HazardError, match="before group 1 has consumed it"):
        both.step(0, both.channel.producer)


def test_blocks_without_a_cluster_load_both_halves() -> None:
    alone = cuda("gemm_clustered").split("gemm_alone_kernel(")[1].split("gemm_launch(")[0]
    assert "tma_load_multicast" not in alone
    assert alone.count("tma_load(") == 2 * 3  # A, and the halves of B, before the loop and in it
    assert replace(program("gemm_clustered"), cluster=1).clustered is False
