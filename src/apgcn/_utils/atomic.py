"""Atomic writes: a file or folder appears complete or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from apgcn.errors import InvalidInput


def resolve_output_file(
    path: Path, *, option: str, example: str, protected: Iterable[Path | None] = (), suffixes: Iterable[str] = ()
) -> Path:
    """Return the absolute path, if a file can be created or replaced there.

    Parameters
    ----------
    path : Path
    option : str
        The option or parameter that the user gave the path with, for the message.
    example : str
        A file name to suggest where `path` is a folder.
    protected : paths, optional
        Inputs that must not be overwritten: files, and folders with all that they contain.
    suffixes : sequence of str, optional
        In lower case: the file's name must end in one of them, so that no file of another kind is replaced.

    Raises
    ------
    InvalidInput
        If no file can be written there.
    """
    try:
        path = Path(path).resolve()
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidInput(f"{option} must name a file, but {path} is none ({error}); name another one.") from error
    for source in protected:
        if source is not None and Path(source).resolve() in (path, *path.parents):
            raise InvalidInput(f"{option} must not name an input, but {path} is one or lies in one; name another file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{option} must name a file in a folder that exists, but {path.parent} does not.")
    if path.is_dir():
        raise InvalidInput(f"{option} must name a file, but {path} is a folder; try {path / example}.")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{option} must name a file, but {path} is none; name another one.")
    if suffixes and path.suffix.lower() not in suffixes:
        raise InvalidInput(f"{option} must name a file that ends in {' or '.join(suffixes)}, got {path.name!r}.")
    return path


PARTIAL_PREFIX = ".partial-"  # of the names of files and folders that are being written
STALE_SECONDS = 3600  # after which a file that is being written, and was not written to, belongs to a dead process
MAX_NAME_BYTES = 200  # of the target, in the name of the temporary file: file systems allow 255 in all


def atomic_write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file through `write` under a temporary name, sync it, and only then rename it to `path`.

    An existing file stays until that moment. Each writer has a file `.partial-NAME-TOKEN` of its own, which must not
    exist before: of several writers of one path, the last to finish leaves its whole file. A process that was killed
    leaves its temporary file; the first writer of `path` an hour later removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.encode(errors="surrogateescape")[:MAX_NAME_BYTES].decode(errors="ignore")
    prefix = f"{PARTIAL_PREFIX}{name}-"
    _remove_stale_files(path.parent, prefix)
    partial = path.with_name(f"{prefix}{secrets.token_hex(8)}")
    file = partial.open("xb")  # fails if the name exists, also as a link
    try:
        with named_errors(path), file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def _remove_stale_files(folder: Path, prefix: str) -> None:
    """Remove temporary files of writers that were killed; one that cannot be removed stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(re.escape(prefix) + "[0-9a-f]{16}", entry.name):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_SECONDS:
                        os.unlink(entry.path)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Context manager: an error of the operating system in the block names the file, as that of a full disk does not.

    >>> with named_errors(Path("weights")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'weights'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; an error names it. Files outside a `new_folder` are written with `atomic_write`."""
    with named_errors(path), path.open("wb") as file:
        file.write(content)


def fsync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk, so that they survive a power cut; POSIX only."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(path: Path, *, option: str = "--out") -> Iterator[Path]:
    """Context manager: a temporary folder that becomes `path` when the block succeeds, and is removed if it raises.

    Entering it already checks that `path` is writable, so enter it before long computations. An existing folder that is
    empty, except for partial folders of processes that were killed, is filled; its owner and permissions stay. `option`
    is what the user gave the path with, for messages.

    Raises
    ------
    InvalidInput
        If `path` is a file or a folder that is not empty, or cannot be written to.
    """
    try:
        path = Path(path).resolve()
        exists = path.is_dir()
        _check_new_or_empty(path, option)
        missing = [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=path if exists else path.parent))
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{option} must be writable, but {path} is not ({reason}); name another folder.") from error
    try:
        yield partial
        _move_into_place(partial, path, exists=exists, option=option)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and isinstance(error.filename, str):  # name the file that would have been written
            error.filename = error.filename.replace(str(partial), str(path), 1)
        for parent in missing:  # the innermost first
            with suppress(OSError):
                parent.rmdir()
        raise


def _check_new_or_empty(path: Path, option: str) -> None:
    if path.is_dir():
        if any(not entry.name.startswith(PARTIAL_PREFIX) for entry in path.iterdir()):
            raise InvalidInput(
                f"{option} must name a new or empty folder, but {path} has files in it; name another one."
            )
    elif path.exists():
        raise InvalidInput(f"{option} must name a folder, but {path} is a file; name another one.")


def _move_into_place(partial: Path, path: Path, *, exists: bool, option: str) -> None:
    _check_new_or_empty(path, option)  # another process may have written there meanwhile
    if exists:
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
