"""Download of benchmark files, with checksums.

A file is searched for in `$APGCN_DATA`, then in the user's cache folder, and otherwise downloaded into the first of
these that is set. It is used only if its SHA-256 is the registry's; one that differs is left unchanged and reported.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from apgcn.data.registry import DatasetInfo
from apgcn.errors import BrokenFile, MissingFile, MissingPackage


def data_folders() -> Iterator[Path]:
    """The folders that are searched, in this order; a download goes to the first."""
    configured = os.environ.get("APGCN_DATA")
    if configured:
        yield Path(configured).expanduser()
    try:
        yield Path(_import_pooch().os_cache("apgcn"))
    except RuntimeError as error:  # a user without a home folder
        raise MissingFile(
            f"there is no cache folder ({error}); set APGCN_DATA to a folder for benchmark files."
        ) from error


def find_file(dataset: DatasetInfo) -> Path | None:
    """The path of the file if it is in one of the folders; its checksum is not verified."""
    paths = (folder / dataset.file_name for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


def fetch(dataset: DatasetInfo) -> Path:
    """The path of the verified file, downloaded if necessary.

    A download goes to a temporary name, is verified, and only then renamed: if it is interrupted, call again.
    """
    path = find_file(dataset)
    if path is None:
        return _download(dataset, next(data_folders()))
    _verify(path, dataset)
    return path


def _verify(path: Path, dataset: DatasetInfo) -> None:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise MissingFile(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    if digest != dataset.sha256:
        raise BrokenFile(
            f"{path} must have SHA-256 {dataset.sha256} but has {digest}; move it away to download {dataset.url} again."
        )


def _download(dataset: DatasetInfo, folder: Path) -> Path:
    if os.path.lexists(folder / dataset.file_name):
        raise BrokenFile(f"{folder / dataset.file_name} must be a file that can be read; move it away.")
    pooch = _import_pooch()
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        path = pooch.retrieve(
            dataset.url, known_hash=dataset.sha256, fname=dataset.file_name, path=folder, progressbar=False
        )
    except ValueError as error:  # the hash; pooch has removed the file
        raise BrokenFile(
            f"{dataset.url} is not the published {dataset.file_name} (its SHA-256 differs); nothing was kept."
        ) from error
    except OSError as error:  # no folder, no network: requests' errors are OSErrors
        raise MissingFile(
            f"{dataset.file_name} is not in {folder} and could not be downloaded from {dataset.url} "
            f"({type(error).__name__}); put it there by hand, or set APGCN_DATA to the folder that has it."
        ) from error
    Path(path).chmod(0o644)
    return Path(path)


def _import_pooch():
    try:
        import pooch
    except ImportError as error:
        raise MissingPackage(
            "downloading benchmark files needs pooch: pip install pooch, or set APGCN_DATA."
        ) from error
    return pooch
