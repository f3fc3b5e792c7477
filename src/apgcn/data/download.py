"""Where is a benchmark file, and is it the published one?

It is looked for in `$APGCN_DATA`, then in the user's cache folder, and else downloaded into the first of these that is
set. A file is used only if its SHA-256 is the catalogue's; one that differs is left alone and named.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from apgcn.data.registry import Dataset
from apgcn.errors import BrokenFile, MissingFile, MissingPackage


def folders() -> Iterator[Path]:
    """Where files are looked for, in this order; a download goes to the first."""
    named = os.environ.get("APGCN_DATA")
    if named:
        yield Path(named).expanduser()
    try:
        yield Path(_pooch().os_cache("apgcn"))
    except RuntimeError as error:  # a user without a home folder
        raise MissingFile(
            f"there is no cache folder ({error}); set APGCN_DATA to a folder for benchmark files."
        ) from error


def find(dataset: Dataset) -> Path | None:
    """The file, if it lies in one of the folders; unchecked."""
    paths = (folder / dataset.file_name for folder in folders())
    return next((path for path in paths if path.is_file()), None)


def fetch(dataset: Dataset) -> Path:
    """The checked file, downloaded if need be.

    A download is written beside its place, checked, and only then renamed into it: whatever interrupts it, calling
    again starts anew.
    """
    path = find(dataset)
    if path is None:
        return _download(dataset, next(folders()))
    _check(path, dataset)
    return path


def _check(path: Path, dataset: Dataset) -> None:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise MissingFile(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    if digest != dataset.sha256:
        raise BrokenFile(
            f"{path} must have SHA-256 {dataset.sha256} but has {digest}; "
            f"move it away to download {dataset.address} again."
        )


def _download(dataset: Dataset, folder: Path) -> Path:
    if os.path.lexists(folder / dataset.file_name):
        raise BrokenFile(f"{folder / dataset.file_name} must be a file that can be read; move it away.")
    pooch = _pooch()
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        kept = pooch.retrieve(
            dataset.address, known_hash=dataset.sha256, fname=dataset.file_name, path=folder, progressbar=False
        )
    except ValueError as error:  # the hash; pooch has removed the file
        raise BrokenFile(
            f"{dataset.address} is not the published {dataset.file_name} (its SHA-256 differs); nothing was kept."
        ) from error
    except OSError as error:  # no folder, no network: requests' errors are OSErrors
        raise MissingFile(
            f"{dataset.file_name} is not in {folder} and could not be downloaded from {dataset.address} "
            f"({type(error).__name__}); put it there by hand, or set APGCN_DATA to the folder that has it."
        ) from error
    Path(kept).chmod(0o644)
    return Path(kept)


def _pooch():
    try:
        import pooch
    except ImportError as error:
        raise MissingPackage(
            "downloading benchmark files needs pooch: pip install pooch, or set APGCN_DATA."
        ) from error
    return pooch
