"""Download of benchmark files, with checksums.

A file is searched for in `$APGCN_DATA`, then in the user's cache folder, and otherwise downloaded into the first of
these that is set. It is used only if its SHA-256 is the registry's; one that differs is left unchanged and reported.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from apgcn.data.registry import DatasetInfo
from apgcn.errors import BrokenFile, MissingFile, MissingPackage

MAX_BYTES = 2**28  # of a file: the largest in the registry has 32 MB
MAX_SECONDS = 900.0  # of a download
CHUNK_BYTES = 2**16


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
            dataset.url,
            known_hash=dataset.sha256,
            fname=dataset.file_name,
            path=folder,
            downloader=_download_with_limits,
        )
    except ValueError as error:  # the hash; pooch has removed the file
        raise BrokenFile(
            f"{dataset.url} is not the published {dataset.file_name} (its SHA-256 differs); nothing was kept."
        ) from error
    except _LimitExceeded as error:
        raise MissingFile(
            f"the download of {dataset.url} must have at most {MAX_BYTES:,} bytes and end within {MAX_SECONDS:g} "
            f"seconds, but {error}; nothing was kept: try again, or put {dataset.file_name} into {folder} by hand."
        ) from error
    except OSError as error:  # no folder, no network: requests' errors are OSErrors
        raise MissingFile(
            f"{dataset.file_name} is not in {folder} and could not be downloaded from {dataset.url} "
            f"({type(error).__name__}); put it there by hand, or set APGCN_DATA to the folder that has it."
        ) from error
    Path(path).chmod(0o644)
    return Path(path)


class _LimitExceeded(Exception):
    """A download is too large or takes too long."""


def _download_with_limits(url: str, output_file: str, _: object) -> None:
    """Download a file within the limits of size and time, which are checked whenever the server has sent something."""
    import requests  # pooch depends on it

    ends, free = time.monotonic() + MAX_SECONDS, MAX_BYTES
    with requests.get(url, stream=True, timeout=30) as response, Path(output_file).open("wb") as file:
        response.raise_for_status()
        while content := response.raw.read1(CHUNK_BYTES, decode_content=True):
            free -= len(content)
            if free < 0:
                raise _LimitExceeded("there is more")
            if time.monotonic() > ends:
                raise _LimitExceeded("it takes longer")
            file.write(content)


def _import_pooch():
    try:
        import pooch
    except ImportError as error:
        raise MissingPackage(
            "downloading benchmark files needs pooch: pip install pooch, or set APGCN_DATA."
        ) from error
    return pooch
