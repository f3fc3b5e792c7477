"""How is a file written? Whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from apgcn.errors import InvalidInput


def file_to_write(path: Path, *, option: str, example: str, spare: Iterable[Path | None] = ()) -> Path:
    """The path in full, if a file can be written there or replaced; `option` is how the user came to name it.

    What is to be spared, files and all that is in folders, is not to be replaced.
    """
    try:
        path = Path(path).resolve()
    except (OSError, RuntimeError) as error:
        raise InvalidInput(f"{option} must name a file, but {path} is none ({error}); name another one.") from error
    for kept in spare:
        if kept is not None and Path(kept).resolve() in (path, *path.parents):
            raise InvalidInput(f"{option} must not name what is read, but {path} is that or in it; name another file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{option} must name a file in a folder that exists, but {path.parent} does not.")
    if path.is_dir():
        raise InvalidInput(f"{option} must name a file, but {path} is a folder; try {path / example}.")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{option} must name a file, but {path} is none; name another one.")
    return path


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside its place, sync it, and only then rename it into the place.

    What was there before stays until that moment. An attempt that was killed leaves a file `.partial-NAME`, which the
    next one replaces.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{path.name}")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder survive a power cut, where the system can promise it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
