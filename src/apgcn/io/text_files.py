"""Text of a table's file: UTF-8, or UTF-16 with a byte order mark."""

from __future__ import annotations

from pathlib import Path

from apgcn.errors import InvalidInput, MissingFile

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of little-endian and big-endian text


def read_text(path: Path) -> str:
    """Content of a file without its byte order mark; line breaks stay as they are.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidInput
        If it is a folder, cannot be read, or is not text in UTF-8 or UTF-16.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a table, but there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} must be a table, but it is a folder; name a file in it.") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be readable, but it is not ({error}).") from error
    is_utf16 = content[:2] in UTF16_MARKS
    try:
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        if is_utf16:
            raise InvalidInput(f"{path} must be UTF-16, as its first bytes declare, but is not ({error}).") from None
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path}, line {line} must be UTF-8, but it is not; save the file as UTF-8 (in Excel as CSV UTF-8)."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput(f"{path}, line {line} must be text, but it contains a null byte; is it a table?")
    return text
