"""What a Triton kernel is compiled for: a type or a value for every argument, and the launch options.

Takes the parameters of a kernel and settings from several sources; gives an `Instance`. Settings are, each
overriding the ones before it: annotations and defaults of the parameters, the first configuration of
`@triton.autotune`, the entry of the kernel in the table `TWILL` of its file, the entry for the architecture
inside that one, and `--set`. In the table,

    TWILL = {"gemm": {"a": "*fp16:16", "M": "i32:16", "BLOCK_M": 128, "num_warps": 8, "sm100": {"BLOCK_M":
    256}}}

types are spelled as in Triton's own signatures: `*fp16` is a pointer, and `:16` promises divisibility by 16
(of the address, for a pointer). A name of a launch option that is also a parameter: with a type it is the
parameter alone, with a value both, as a keyword is to Triton. Raises TwillError that lists all that is
missing, unknown or of the wrong kind at once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from twill.diagnostics import TwillError
from twill.extract.frontend.options import OPTIONS

SCALARS = (
    *(f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64)),
    *("fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"),
)
"""Types of numbers, as Triton's signatures spell them."""
TYPE = re.compile(rf"(?:\**k?(?:{'|'.join(SCALARS)})|nvTmaDesc|tensordesc<.+>)(?::16)?$")

DTYPE = re.compile(r"(?:tl|triton\.language|torch)\.(\w+)$")
"""A type as programs write it, such as `tl.bfloat16`."""

DTYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8e4nv": "fp8e4nv",
    "float8_e4m3fn": "fp8e4nv",
    "float8e5": "fp8e5",
    "float8_e5m2": "fp8e5",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (1, 8, 16, 32, 64)},
}
"""Such names in Triton's signatures."""

OTHERWISE = {
    "half": "fp16",
    "half_t": "fp16",
    "f16": "fp16",
    "bfloat16_t": "bf16",
    "float": "fp32",
    "f32": "fp32",
    "double": "fp64",
    "f64": "fp64",
    "int": "i32",
    "long": "i64",
    "bool": "i1",
    "e4m3": "fp8e4nv",
    "f8E4M3FN": "fp8e4nv",
    "e5m2": "fp8e5",
    "f8E5M2": "fp8e5",
}
"""Names that C, CUTLASS and MLIR have for them."""
COMMON = ("*fp16:16", "*bf16", "*fp8e4nv", "fp32", "i32:16")
"""What a message names as examples."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel as its definition has it."""

    name: str
    constant: bool
    """Annotated `tl.constexpr`."""
    type: str = ""
    """The type its annotation names; empty where it names none."""
    default: object = None
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """One compilation of a kernel."""

    types: Mapping[str, str]
    """Types of the arguments that are passed at run time; `:16` is taken off."""
    divisible: frozenset[str]
    """Those that are multiples of 16."""
    constants: Mapping[str, object]
    """Values of the others."""
    options: Mapping[str, int | None]


def resolve(name: str, parameters: Iterable[Parameter], *settings: Mapping[str, object]) -> Instance:
    """The instance of kernel `name` that `settings` name, later ones first."""
    known = {parameter.name: parameter for parameter in parameters}
    merged = {key: value for layer in (defaults(known.values()), *settings) for key, value in layer.items()}
    passed = [key for key, one in known.items() if key in merged and at_run_time(one, merged[key])]
    types = {key: dtype(merged[key]) or str(merged[key]) for key in passed}
    merged |= types
    options = {key: merged.get(key, default) for key, default in OPTIONS.items() if key not in types}
    complaints = [
        *(
            f"`{key}` is neither an argument of {name} nor an option{_meant(key, (*known, *OPTIONS))}"
            for key in merged
            if key not in known and key not in OPTIONS
        ),
        *(complaint for parameter in known.values() for complaint in judged(parameter, merged)),
        *(
            f"{key} is a number, not {value!r}"
            for key, value in options.items()
            if not isinstance(value, int | None)
        ),
    ]
    if complaints:
        missing = [one for key, one in known.items() if key not in merged]
        raise TwillError(
            f"{name} cannot be compiled: " + "; ".join(complaints),
            help=advice(name, missing or known.values()),
        )
    return Instance(
        types={key: text.removesuffix(":16") for key, text in types.items()},
        divisible=frozenset(key for key, text in types.items() if text.endswith(":16")),
        constants={key: merged[key] for key in known if key not in types},
        options={key: number(options.get(key, default)) for key, default in OPTIONS.items()},
    )


def number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def defaults(parameters: Iterable[Parameter]) -> dict[str, object]:
    """What the definition itself says."""
    typed = {parameter.name: parameter.type for parameter in parameters if parameter.type}
    return typed | {parameter.name: parameter.default for parameter in parameters if parameter.has_default}


def at_run_time(parameter: Parameter, value: object) -> bool:
    """Whether the argument is passed at run time: a type is given for it, and no value."""
    return not parameter.constant and isinstance(value, str)


def dtype(value: object) -> str | None:
    """The name, in Triton's signatures, of a type that is written as in programs (`tl.bfloat16`); None for
    anything else."""
    found = DTYPE.match(value) if isinstance(value, str) else None
    return DTYPES.get(found[1]) if found else None


def judged(parameter: Parameter, settings: Mapping[str, object]) -> list[str]:
    """What is wrong with the setting of one parameter."""
    name = parameter.name
    if name not in settings:
        return [f"`{name}` has no {'value' if parameter.constant else 'type'}"]
    if at_run_time(parameter, settings[name]) and not TYPE.match(str(settings[name])):
        return [f"`{settings[name]}` is no type for `{name}`{_meant_type(str(settings[name]))}"]
    return []


def _meant(word: str, known: Iterable[str]) -> str:
    """A name that is close to it, as a question; empty where there is none."""
    close = get_close_matches(word, list(known), 1)
    return f" (`{close[0]}`?)" if close else ""


def _meant_type(text: str) -> str:
    """The same for a type, which PyTorch, C and CUTLASS spell otherwise."""
    stars, divisible = "*" * text.count("*"), ":16" * text.endswith(":16")
    plain = text.strip("*").removesuffix(":16")
    spelled = DTYPES.get(plain) or OTHERWISE.get(plain)
    return f" (`{stars}{spelled}{divisible}`?)" if spelled else f": write it as {', '.join(COMMON)}"


def advice(name: str, parameters: Iterable[Parameter]) -> str:
    """How to say what is missing."""
    example = " ".join(f"--set {p.name}={128 if p.constant else '*fp16:16'}" for p in list(parameters)[:2])
    return (
        f'use --set NAME=VALUE (such as {example}), or give TWILL = {{"{name}": {{...}}}} in the kernel\'s'
        " file"
    )


def from_text(settings: Mapping[str, str]) -> dict[str, object]:
    """Settings of a command line: Python literals are values, `tl.bfloat16` and the like types, anything else
    is text (a type of an argument, or a string constant)."""
    return {name: literal(text) for name, text in settings.items()}


def literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
