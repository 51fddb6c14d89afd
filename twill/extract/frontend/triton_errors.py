"""Triton's exceptions as TwillErrors, at the line of the kernel."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from twill.diagnostics import Location, TwillError
from twill.extract.frontend.kernel_files import LOADED


@contextmanager
def triton_errors(function: str) -> Generator[None]:
    """Turns the exceptions of a compilation into a TwillError, at the line of the kernel where there is
    one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TwillError:
        raise
    except ImportError as error:
        raise TwillError(f"{function} needs Triton: {error}", help="pip install triton") from error
    except Exception as error:
        raise compile_failure(error, function) from error


def compile_failure(error: BaseException, function: str) -> TwillError:
    """Follows a compilation error to its cause, which knows the source of the function it is in."""
    while getattr(error, "error_message", None) is None and error.__cause__ is not None:
        error = error.__cause__
    node = getattr(error, "node", None)
    place, text = source_place(
        getattr(error, "src", None), getattr(node, "lineno", None), getattr(node, "col_offset", 0)
    )
    return TwillError(f"Triton does not compile {function}: {complaint(error, node)}", place, text=text)


def complaint(error: BaseException, node: ast.AST | None) -> str:
    """The first line of what Triton says; of an assertion, that it fails, and its text where it has no
    message."""
    said = getattr(error, "error_message", None)
    failed = type(error).__name__ == "CompileTimeAssertionFailure"
    if failed and not said and node is not None:
        return f"`{ast.unparse(node)}` fails"
    first = (said or str(error) or type(error).__name__).strip().splitlines()[0]
    return f"static_assert fails: {first}" if failed else first


def source_place(source: str | None, line: int | None, column: int) -> tuple[Location | None, str | None]:
    """Where line number `line` of a kernel's source stands, and its text: in the file of a loaded module that
    holds this source."""
    files = {
        str(getattr(module, "__file__", ""))
        for name, module in sys.modules.items()
        if name.startswith(LOADED)
    }
    for file in sorted(files) if source and line else ():
        text = Path(file).read_text(encoding="utf-8")
        before, found, _ = text.partition(source or "")
        if found:
            number = before.count("\n") + (line or 0)
            return Location(os.path.relpath(file), number, column + 1), text.splitlines()[number - 1]
    return None, None
