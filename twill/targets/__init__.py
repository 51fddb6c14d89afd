"""The architectures that kernels are generated for: everything that depends on one of them."""

from twill.diagnostics import TwillError
from twill.warp.target import Target

EXACT_LAYOUTS = ("sm100",)
"""Architectures whose threads hold every tile exactly as TTGIR lays it out: as tensor memory is read."""


def target(arch: str) -> Target:
    """The target of a machine's architecture. Raises TwillError for one that nothing is generated for."""
    match arch:
        case "sm90":
            from twill.targets.hopper import TARGET

            return TARGET
        case "sm100":
            from twill.targets.blackwell import TARGET

            return TARGET
        case _:
            raise TwillError(f"no kernel can be generated for {arch}", help="architectures: sm90, sm100")
