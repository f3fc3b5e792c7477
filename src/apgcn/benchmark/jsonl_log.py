"""Append-only files of JSON lines that several processes write at once and that survive a crash at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from filelock import FileLock

from apgcn._utils.atomic import fsync_folder
from apgcn.errors import BrokenFile, InvalidInput

JSONObject = dict[str, Any]


class Entry(Protocol):
    """An object that can be logged."""

    @property
    def key(self) -> str:
        """Name that no other entry of the log has."""
        ...

    def to_json(self) -> JSONObject:
        """All of the entry, the key included, as JSON values."""
        ...


E = TypeVar("E", bound=Entry)


class JSONLinesLog(Generic[E]):
    """A file with one entry per line.

    An entry is appended under a lock, flushed and synced before the next, so several processes can write at once. A
    last line that is incomplete, because its writer was killed, is ignored by readers and cut off by the next writer.
    Reading continues where the last call ended, so `entries` is cheap to call again.

    Parameters
    ----------
    path : Path
        Need not exist.
    from_json : function
        Makes an entry of a JSON object; raises InvalidInput if it is not one.
    """

    def __init__(self, path: Path, from_json: Callable[[JSONObject], E]):
        self.path, self._from_json = Path(path), from_json
        self._reset()

    def _reset(self) -> None:
        self._entries: dict[str, E] = {}
        self._bytes = self._lines = 0  # that are complete and were read
        self._last_line = b""  # of those

    def entries(self) -> dict[str, E]:
        """The entries by key, in the order of the file.

        Raises
        ------
        BrokenFile
            If a line other than the last is not an entry; the message has its number.
        """
        self._refresh()
        return self._entries

    def append(self, entries: Iterable[E], *, sync_each: bool = True) -> None:
        """Add the entries whose key is new; each is on disk before the next is written, or all of them at the end."""
        with file_lock(self.path), _open_to_append(self.path) as file:
            self._refresh()
            if file.tell() > self._bytes:
                os.truncate(self.path, self._bytes)  # an incomplete last line: under the lock nobody is writing it
            for entry in entries:
                if entry.key not in self._entries:
                    line = json.dumps(entry.to_json(), allow_nan=False, ensure_ascii=False).encode() + b"\n"
                    file.write(line)
                    self._add(entry, line)
                    if sync_each:
                        _sync(file)
            _sync(file)

    def _refresh(self) -> None:
        """Read what was appended since the last call, by this process or by others."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._bytes - len(self._last_line))
                if file.read(len(self._last_line)) != self._last_line:  # the file was replaced
                    self._reset()
                    file.seek(0)
                *lines, incomplete = file.read().split(b"\n")
        except FileNotFoundError:
            return self._reset()
        for number, line in enumerate(lines):
            value = _parse(line)
            if value is None and number == len(lines) - 1 and not incomplete:
                return  # broken, but the last
            self._add(self._entry(line, value), line + b"\n")

    def _entry(self, line: bytes, value: JSONObject | None) -> E:
        where = f"line {self._lines + 1} of {self.path}"
        if value is None:
            raise BrokenFile(
                f"{where} must be a JSON object with a key, got {line[:40].decode(errors='replace')!r}...; "
                "restore the file, or remove that line."
            )
        try:
            return self._from_json(value)
        except InvalidInput as error:
            raise BrokenFile(f"{where} is not as it was written: {error}") from error

    def _add(self, entry: E, line: bytes) -> None:
        self._entries.setdefault(entry.key, entry)
        self._bytes += len(line)
        self._lines += 1
        self._last_line = line


def file_lock(path: Path) -> FileLock:
    """The lock of a file, in the folder `locks` beside it.

    The operating system releases it when the process that holds it ends, however it ends.
    """
    folder = path.parent / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{path.name}.lock")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _open_to_append(path: Path) -> BinaryIO:
    """Open a file to append to; the name of a new file is synced."""
    is_new = not path.exists()
    file = path.open("ab")
    if is_new:
        fsync_folder(path.parent)
    return file


def _parse(line: bytes) -> JSONObject | None:
    """The object of a line, or None if it is not a JSON object with a key."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested too deep
        return None
    return value if isinstance(value, dict) and isinstance(value.get("key"), str) else None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
