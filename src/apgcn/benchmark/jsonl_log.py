"""How are records kept so that nothing that happens can lose or spoil one? An append-only file of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from filelock import FileLock

from apgcn._utils.atomic import sync_folder
from apgcn.errors import BrokenFile, InvalidInput

Line = dict[str, Any]


class Entry(Protocol):
    """What can be logged."""

    @property
    def key(self) -> str:
        """What no other entry of the log is called."""
        ...

    @property
    def line(self) -> Line:
        """All of it, the key included, as JSON values."""
        ...


E = TypeVar("E", bound=Entry)


class Log(Generic[E]):
    """A file with one entry a line.

    An entry is appended under a lock, flushed and synced before the next, so several processes can write at once. A
    last line that is torn, because its writer was killed, is read as if it were not there, and cut off by the next
    writer. Reading goes on where it ended: `entries` is cheap to ask for again.

    Parameters
    ----------
    path : Path
        Need not exist.
    read : function
        From a JSON object to an entry; raises InvalidInput where it is none.
    """

    def __init__(self, path: Path, read: Callable[[Line], E]):
        self.path, self._read = Path(path), read
        self._forget()

    def _forget(self) -> None:
        self._entries: dict[str, E] = {}
        self._bytes = self._lines = 0  # that are whole, and known
        self._last = b""  # of those lines

    def entries(self) -> dict[str, E]:
        """The entries by key, in the order they came.

        Raises
        ------
        BrokenFile
            If a line other than the last is no entry; the message has its number.
        """
        self._refresh()
        return self._entries

    def append(self, entries: Iterable[E], *, sync_each: bool = True) -> None:
        """Add those whose key is not there yet; each is safe before the next is written, or all of them at the end."""
        with locked(self.path), _opened(self.path) as file:
            self._refresh()
            if file.tell() > self._bytes:
                os.truncate(self.path, self._bytes)  # a torn last line: nobody else is writing now
            for entry in entries:
                if entry.key not in self._entries:
                    text = json.dumps(entry.line, allow_nan=False, ensure_ascii=False).encode() + b"\n"
                    file.write(text)
                    self._take(entry, text)
                    if sync_each:
                        _sync(file)
            _sync(file)

    def _refresh(self) -> None:
        """Take in what was appended since the last look, here or by others."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._bytes - len(self._last))
                if file.read(len(self._last)) != self._last:  # another file lies there now
                    self._forget()
                    file.seek(0)
                *whole, unfinished = file.read().split(b"\n")
        except FileNotFoundError:
            return self._forget()
        for place, text in enumerate(whole):
            line = _parsed(text)
            if line is None and place == len(whole) - 1 and not unfinished:
                return  # torn, but the last
            self._take(self._entry(text, line), text + b"\n")

    def _entry(self, text: bytes, line: Line | None) -> E:
        here = f"line {self._lines + 1} of {self.path}"
        if line is None:
            raise BrokenFile(
                f"{here} must be a JSON object with a key, got {text[:40].decode(errors='replace')!r}...; "
                "restore the file, or remove that line."
            )
        try:
            return self._read(line)
        except InvalidInput as error:
            raise BrokenFile(f"{here} is not as it was written: {error}") from error

    def _take(self, entry: E, text: bytes) -> None:
        self._entries.setdefault(entry.key, entry)
        self._bytes += len(text)
        self._lines += 1
        self._last = text


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _opened(path: Path) -> BinaryIO:
    """A file to append to, whose name is synced if it is new."""
    is_new = not path.exists()
    file = path.open("ab")
    if is_new:
        sync_folder(path.parent)
    return file


def locked(path: Path) -> FileLock:
    """The lock that goes with a file, in the folder `locks` beside it.

    The operating system takes it back from a process that ends, however it ends.
    """
    folder = path.parent / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{path.name}.lock")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _parsed(text: bytes) -> Line | None:
    """The object that a line holds, or None."""
    try:
        line = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested beyond all reason
        return None
    return line if isinstance(line, dict) and isinstance(line.get("key"), str) else None
