"""Append-only files of JSON lines that several processes write at once and that survive a crash at any moment."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from filelock import FileLock

from apgcn._utils.atomic import fsync_folder, named_errors
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
    A line ends with its checksum, which readers verify; lines of apgcn 0.2 and earlier have none.
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
            If a complete line is not an entry, is not as it was written, or has the key of an earlier line and other
            values; the message has its number.
        """
        self._refresh()
        return self._entries

    def append(self, entries: Iterable[E], *, sync_each: bool = True) -> None:
        """Add the entries whose key is new; each is on disk before the next is written, or all of them at the end."""
        with file_lock(self.path), named_errors(self.path), _open_to_append(self.path) as file:
            self._refresh()
            if file.tell() > self._bytes:
                os.truncate(self.path, self._bytes)  # an incomplete last line: under the lock nobody is writing it
            for entry in entries:
                if entry.key not in self._entries:
                    line = format_line(entry.to_json())
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
        for line in lines:
            self._add(self._entry(line), line + b"\n")
        if has_valid_checksum(incomplete[:-1]):  # a whole line, whose line break is damaged
            self._entry(incomplete)

    def _entry(self, line: bytes) -> E:
        where = f"line {self._lines + 1} of {self.path}"
        value = _parse(line)
        if value is None:
            raise BrokenFile(
                f"{where} must be a JSON object with a key, got {line[:40].decode(errors='replace')!r}...; "
                "restore the file, or remove that line."
            )
        has_checksum = "checksum" in value or CHECKSUM_PREFIX in line[-CHECKSUM_LENGTH:]
        value.pop("checksum", None)
        try:
            entry = self._from_json(value)
        except InvalidInput as error:
            raise BrokenFile(f"{where} is not as it was written: {error}") from error
        if has_checksum and not has_valid_checksum(line):
            raise BrokenFile(
                f"{where} must be as it was written, but its checksum does not match; restore the file, or remove that "
                "line."
            )
        if self._entries.get(entry.key, entry) != entry:
            raise BrokenFile(
                f"{where} must be the only one of its key, but an earlier line has other values for {entry.key!r}; "
                "remove one of them."
            )
        return entry

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


def format_line(value: JSONObject) -> bytes:
    """The line of a JSON object: its last member is the CRC-32 of the object without that member.

    >>> format_line({"key": "a"})
    b'{"key": "a", "checksum": "crc32:8a3bca2d"}\\n'
    """
    return _add_checksum(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) + b"\n"


def has_valid_checksum(line: bytes) -> bool:
    """Whether a line without its line break ends with a checksum, and is as it was written."""
    return len(line) > CHECKSUM_LENGTH and _add_checksum(line[:-CHECKSUM_LENGTH] + b"}") == line


def _add_checksum(line: bytes) -> bytes:
    return line[:-1] + b', "checksum": "%s%08x"}' % (CHECKSUM_PREFIX, zlib.crc32(line))


CHECKSUM_PREFIX = b"crc32:"
CHECKSUM_LENGTH = len(_add_checksum(b"{}")) - len(b"{}") + 1  # with the closing brace


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
