"""How does a folder of results appear? Whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apgcn.errors import InvalidInput

BEGUN = ".partial-"  # begins the name of a folder that is being written


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `path` when the block ends well, and is removed when it does not.

    Entering it already shows that the place can be written to, so it is worth entering before long work. A folder that
    is there and empty, but for what a process that was killed had begun, is filled; its owner and permissions stay.

    Raises
    ------
    InvalidInput
        If `path` is a file or a folder that is not empty, or cannot be written to.
    """
    try:
        path = Path(path).resolve()
        filled = path.is_dir()
        _check_place(path)
        missing = [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=BEGUN, dir=path if filled else path.parent))
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"--out must be writable, but {path} is not ({reason}); name another folder.") from error
    try:
        yield partial
        _settle(partial, path, filled=filled)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in missing:  # the innermost first
            with suppress(OSError):
                parent.rmdir()
        raise


def _check_place(path: Path) -> None:
    if path.is_dir():
        if any(not one.name.startswith(BEGUN) for one in path.iterdir()):
            raise InvalidInput(f"--out must name a new or empty folder, but {path} has files in it; name another one.")
    elif path.exists():
        raise InvalidInput(f"--out must name a folder, but {path} is a file; name another one.")


def _settle(partial: Path, path: Path, *, filled: bool) -> None:
    """Put what was written into its place."""
    _check_place(path)  # another process may have been faster
    if filled:
        for file in sorted(partial.iterdir()):
            os.replace(file, path / file.name)
        partial.rmdir()
        return
    partial.chmod(0o777 & ~_umask())
    os.replace(partial, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
