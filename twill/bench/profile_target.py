# pyright: reportMissingImports=false, reportUnknownMemberType=false
"""Every contender once: what a profiler or compute-sanitizer watches.

    python -m twill.bench.profile_target '{"spec": "kernels.py:gemm", "folder": "build", ...}'

Between cudaProfilerStart and cudaProfilerStop, a kernel that sleeps for a moment stands before each contender
and after the last of a shape.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twill.bench.case import Values

MARK = "spin_kernel"
"""Part of the name of PyTorch's sleeping kernel."""


@dataclass(frozen=True, slots=True)
class Runs:
    """What is to be run of one shape."""

    shape: Mapping[str, int]
    names: tuple[str, ...]
    """Of the contenders, in order; see `contenders.Field`."""
    triton: Values
    """What Triton's compilation is of (`contenders.Field.tuned`)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run."""

    spec: str
    arch: str
    settings: Values
    folder: str
    """Of the built kernel."""
    runs: tuple[Runs, ...]

    def text(self) -> str:
        return json.dumps(asdict(self))


def read(text: str) -> Request:
    """The request that `Request.text` wrote."""
    members: dict[str, Any] = json.loads(text)
    runs = tuple(Runs(**one) for one in members.pop("runs"))
    return Request(runs=runs, **members)


def main(text: str) -> None:
    """Run them."""
    import torch

    from twill.bench.contenders import field
    from twill.launch.load import load

    request = read(text)
    lineup = field(request.spec, request.arch, request.settings, load(request.folder))
    for wanted in request.runs:
        contenders = lineup.all(lineup.case(wanted.shape), wanted.shape, wanted.triton)
        runs = [contenders[name] for name in wanted.names]
        for run in runs:
            run()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for run in runs:
            torch.cuda._sleep(1000)
            run()
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(sys.argv[1])
