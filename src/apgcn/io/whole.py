"""How is a file written? Whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
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
