"""What tests of launches share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def few_objects() -> Iterator[None]:
    """Where a session begins, it looks for kernels among all objects of the process, of which other tests
    leave millions."""
    gc.freeze()
    yield
    gc.unfreeze()
