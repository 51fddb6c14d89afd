# pyright: basic
# pyright: reportMissingImports=false
"""Every contender once: what a profiler or compute-sanitizer watches.

    python -m twill.bench.once '{"spec": "kernels.py:gemm", "folder": "build", ...}'

Between cudaProfilerStart and cudaProfilerStop, a kernel that sleeps for a moment stands before the first contender, between any two, and
after the last.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MARK = "spin_kernel"
"""Part of the name of PyTorch's sleeping kernel."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run."""

    spec: str
    arch: str
    settings: Mapping[str, Any]
    folder: str
    """Of the built kernel."""
    shapes: tuple[Mapping[str, int], ...]
    triton: tuple[Mapping[str, Any] | None, ...]
    """Options of Triton's compilation, for each shape."""
    peers: bool = True

    def text(self) -> str:
        return json.dumps(asdict(self))


def main(text: str) -> None:
    """Run them."""
    import torch

    from twill.bench.contenders import TWILL, field
    from twill.codegen.load import load

    request = Request(**json.loads(text))
    lineup = field(request.spec, request.arch, request.settings, load(request.folder))
    for shape, options in zip(request.shapes, request.triton, strict=True):
        contenders = lineup.contenders(lineup.case(shape), options)
        runs = [run for name, run in contenders.items() if request.peers or name == TWILL]
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
