"""Values of cells: numbers, booleans and missing values, as pandas and spreadsheets write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

# What pandas reads as missing, and an empty cell.
MISSING = frozenset([
    "", "NaN", "nan", "NAN", "-NaN", "-nan", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None",
    "#N/A", "#N/A N/A", "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
])  # fmt: skip
BOOLEANS = {"true": "1", "false": "0"}  # in upper or lower case
MAX_STRAY_TEXT = 0.1  # fraction of a column's cells: fewer texts among numbers are taken as typing errors

COMMA_NUMBER = re.compile(r"[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?")
THOUSANDS_COMMA = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
INTEGRAL_FLOAT = re.compile(r"-?[0-9]+\.0")  # an integer in a column of floats, as pandas writes it
THOUSANDS_POINT = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")


def parse_numbers(cells: Sequence[str], *, decimal_comma: bool = False) -> np.ndarray | None:
    """Numbers of a column as float64, NaN where a cell is missing; None if some cell is text.

    A column of true and false, in upper or lower case, has the numbers 1 and 0. With `decimal_comma` a column has one
    decimal mark, comma or point, and a point before three digits, which may separate thousands, makes it text.

    Parameters
    ----------
    cells : sequence of str
        Cells without surrounding white space.

    Examples
    --------
    >>> parse_numbers(["1", "N/A", "2.5"]).tolist(), parse_numbers(["True", "FALSE"]).tolist()
    ([1.0, nan, 2.5], [1.0, 0.0])
    >>> parse_numbers(["1,5", "2"]), parse_numbers(["1,5", "2"], decimal_comma=True).tolist()
    (None, [1.5, 2.0])
    """
    cells = ["nan" if text in MISSING else text for text in cells]
    values = _parse_points(cells)
    if values is not None:
        pointed = [text for text in cells if "." in text] if decimal_comma else []
        return None if pointed and all(map(THOUSANDS_POINT.fullmatch, pointed)) else values
    if are_booleans(cells):
        return _parse_points([BOOLEANS.get(text.lower(), text) for text in cells])
    if decimal_comma and all(text == "nan" or COMMA_NUMBER.fullmatch(text) for text in cells):
        return _parse_points([text.replace(",", ".") for text in cells])
    return None


def are_booleans(cells: Iterable[str]) -> bool:
    """Whether a column has true or false in each cell that is not missing, and some such cell."""
    present = (text.lower() in BOOLEANS for text in cells if text not in MISSING)
    return next(present, False) and all(present)


def is_number(text: str, *, decimal_comma: bool = False) -> bool:
    """Whether a cell is a number or missing."""
    if decimal_comma and (COMMA_NUMBER.fullmatch(text) or THOUSANDS_POINT.fullmatch(text)):
        return not THOUSANDS_POINT.fullmatch(text)
    return text in MISSING or _parse_points([text]) is not None


def first_text(cells: Sequence[str], *, decimal_comma: bool = False) -> int:
    """Row of the cell to blame if `parse_numbers` returns None: text, else a boolean, else another decimal mark."""
    rows = [row for row, text in enumerate(cells) if not is_number(text, decimal_comma=decimal_comma)]
    text_rows = [row for row in rows if cells[row].lower() not in BOOLEANS]
    pointed = (row for row, text in enumerate(cells) if "." in text)
    return (text_rows or rows or [next(pointed, 0)])[0]


def find_decimal_comma(cells: Sequence[str]) -> str | None:
    """First cell of a column of numbers in which a comma is a decimal mark for sure; None if there is no such cell.

    >>> find_decimal_comma(["1,234", "3,14"]), find_decimal_comma(["1,234", "2"]), find_decimal_comma(["a", "3,14"])
    ('3,14', None, None)
    """
    if not any("," in cell for cell in cells):
        return None
    numbers = present = 0
    example = None
    for cell in cells:
        text = cell.strip()
        if text in MISSING:
            continue
        present += 1
        if COMMA_NUMBER.fullmatch(text):
            numbers += 1
            if example is None and "," in text and not THOUSANDS_COMMA.fullmatch(text):
                example = text
    return example if numbers > (1 - MAX_STRAY_TEXT) * present else None


def _parse_points(cells: Sequence[str]) -> np.ndarray | None:
    """Numbers with a decimal point; None if some text is none, or is one for Python alone.

    Python alone reads `1_000`, and digits of other scripts.
    """
    joined = "".join(cells)
    if "_" in joined or not joined.isascii():
        return None
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return None


def without_decimal_zero(text: str) -> str:
    """Id without the `.0` of an integer that was stored as a float.

    >>> without_decimal_zero("12.0"), without_decimal_zero("v2.0"), without_decimal_zero("12.05")
    ('12', 'v2.0', '12.05')
    """
    return text[:-2] if text.endswith(".0") and INTEGRAL_FLOAT.fullmatch(text) else text


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8: half of a surrogate pair cannot.

    >>> is_encodable("naïve"), is_encodable("\\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
