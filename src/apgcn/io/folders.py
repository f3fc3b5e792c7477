"""How does a folder of results appear? Whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apgcn.errors import InvalidInput


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, renamed to `path` when the block ends well, and removed when it does not.

    Entering it already shows that the place can be written to, so it is worth entering before long work.

    Raises
    ------
    InvalidInput
        If `path` is a file or a folder that is not empty, or cannot be written to.
    """
    path = Path(path).absolute()
    if path.is_dir() and any(path.iterdir()):
        raise InvalidInput(f"--out must name a new or empty folder, but {path} has files in it; name another one.")
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"--out must name a folder, but {path} is a file; name another one.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-", dir=path.parent))
    except OSError as error:
        raise InvalidInput(
            f"--out must be writable, but {path} is not ({error.strerror}); name another folder."
        ) from error
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
