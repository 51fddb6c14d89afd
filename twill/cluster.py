# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Configurations of a sweep on a Dask cluster.

Takes the address of a scheduler; gives a function that computes several configurations at a time. The workers
need Twill and the kernel's file under the same path. Raises TwillError where `distributed` is not installed
or no scheduler answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twill.diagnostics import TwillError
from twill.grid_time import Launch
from twill.inputs import Inputs
from twill.ir.search import Options
from twill.sweep import Outcome, Task, computed

PATIENCE = "20s"
"""How long a scheduler may take to answer."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connection to a scheduler."""

    client: Any
    inputs: Inputs
    launch: Launch | None
    search: Options

    @property
    def width(self) -> int:
        """How many configurations it computes at a time."""
        return max(1, sum(self.client.nthreads().values()))

    def compute(self, tasks: Sequence[Task]) -> Sequence[Outcome]:
        """The outcomes, in the order of the tasks."""
        futures = [
            self.client.submit(computed, self.inputs, one.point, self.launch, self.search, pure=False)
            for one in tasks
        ]
        return list(self.client.gather(futures))

    def close(self) -> None:
        """End the connection."""
        self.client.close()


def connected(address: str, inputs: Inputs, launch: Launch | None, search: Options) -> Cluster:
    """The cluster whose scheduler has an address such as tcp://host:8786."""
    try:
        from distributed import Client
    except ImportError as error:
        raise TwillError(
            "a sweep on a cluster needs Dask's distributed", help="pip install 'twill-scheduler[dask]'"
        ) from error
    try:
        return Cluster(Client(address, timeout=PATIENCE), inputs, launch, search)
    except (OSError, ValueError) as error:
        raise TwillError(
            f"no Dask scheduler answers at {address}", help="start one with `dask scheduler`, and workers"
        ) from error
