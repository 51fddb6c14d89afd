"""Files written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Write `content` to `path`, whose folder is made if need be: through a temporary file beside it, so that no reader and no
    interruption ever sees half of it. Raises OSError where the file system refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """The permissions that new files do not get; reading them means setting them for a moment."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
