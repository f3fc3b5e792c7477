"""How do the columns of a table become features, and the same columns of another table the same features?

An encoding is found once, from the table that a model is trained on, and kept with the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import counted
from apgcn.errors import InvalidInput
from apgcn.io.tables import Table, listed

Kind = Literal["number", "category", "words"]

MOSTLY = 0.5  # of a column's cells are zero, and it stays as it is: a count or a mark, which centring would fill up
FAR = 100  # times the usual distance from the mean: a mistake, perhaps
ROUNDING = 1e-9  # of a column's size is what numbers that are all alike may differ by
RARE = 2  # rows in which a word must be to be a feature
MAX_VALUES = 1000  # of a column in one-hot form

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class ColumnEncoding:
    """How one column is encoded.

    Attributes
    ----------
    name : str
    kind : number, category or words
    center, scale : float
        Of a number, what is subtracted from it and what the rest is divided by; a missing one becomes 0 after that.
    values : tuple of str
        Of a category its values, of words the vocabulary; each is a feature.
    """

    name: str
    kind: Kind
    center: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [self.name] if self.kind == "number" else [f"{self.name}={value}" for value in self.values]


@dataclass(frozen=True)
class FeatureEncoding:
    """How a table is encoded.

    `sums_to_one` says that every row is divided by its sum, as the benchmark does with counts of words. `left_out` are
    columns that are known to be no features.
    """

    columns: tuple[ColumnEncoding, ...]
    sums_to_one: bool
    left_out: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.features]

    def encode(self, table: Table) -> tuple[sparse.csr_matrix | np.ndarray, list[str]]:
        """The features of a table, sparse where most are zero, and what is to be said about it."""
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            raise InvalidInput(
                f"{table.source} must have the columns that the model was trained on, but lacks {listed(lacking)}."
            )
        blocks, strange, far = [], {}, {}
        to_mean: dict[str, int] = {}  # missing values
        to_zero: dict[str, int] = {}
        for column in self.columns:
            if column.kind == "number":
                block, missing = _scaled(column, table)
                far[column.name] = int((np.abs(block.data) > FAR).sum()) if column.center else 0
                (to_mean if column.center else to_zero)[column.name] = missing
            else:
                block, strange[column.name], missing = _marked(column, table)
                to_zero[column.name] = missing if column.kind == "category" else 0
            blocks.append(block)
        notes = [
            f"{table.source}: {counted(sum(counts.values()), 'value')} {what}: "
            f"{listed([one for one in counts if counts[one]])}."
            for counts, what in (
                (to_mean, "missing, taken as the mean"),
                (to_zero, "missing, taken as 0"),
                (strange, "not met in training, taken as missing"),
                (far, f"more than {FAR} times as far from the mean as usual"),
            )
            if any(counts.values())
        ]
        together = sparse.hstack(blocks, format="csr", dtype=np.float32) if blocks else None
        if together is None:
            return np.zeros((len(table), 0), dtype=np.float32), notes
        if self.sums_to_one:
            self._check_counts(table)
            sums = np.asarray(together.sum(axis=1)).ravel()
            together = sparse.diags(np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)) @ together
        dense = together.nnz > MOSTLY * together.shape[0] * together.shape[1]
        return (together.toarray() if dense else together.tocsr()), notes

    def _check_counts(self, table: Table) -> None:
        for column in self.columns:
            position = table.columns.index(column.name)
            values = table.numbers(position) if column.kind == "number" else None
            below = np.flatnonzero(values < 0) if values is not None else np.empty(0, int)
            if len(below):
                raise InvalidInput(f"{table.at(below[0], position)} must not be below 0: in training no value was.")

    def as_json(self) -> dict[str, Any]:
        columns = [dict(vars(column)) for column in self.columns]
        return {"sums_to_one": self.sums_to_one, "columns": columns, "left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> FeatureEncoding:
        return cls(
            columns=tuple(map(_column, given["columns"])),
            sums_to_one=bool(given["sums_to_one"]),
            left_out=tuple(map(str, given["left_out"])),
        )


def _column(given: Mapping[str, Any]) -> ColumnEncoding:
    column = ColumnEncoding(**{**given, "values": tuple(given["values"])})
    texts = (column.name, *column.values)
    if column.kind not in get_args(Kind) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"a column must have a name, a kind and texts as values, got {given!r}.")
    if not np.isfinite([column.center, column.scale]).all() or not column.scale:
        raise InvalidInput(f"column {column.name!r} must have a finite center and a scale that is not 0.")
    return column


def find_encoding(
    table: Table, names: Sequence[str], *, one_hot: Sequence[str] = (), words: Sequence[str] = ()
) -> tuple[FeatureEncoding, list[str]]:
    """How to encode some columns of a table, and what is to be said about it.

    Numbers are centred and scaled, but for columns that are mostly zero, which stay as they are. Text becomes features
    only where it is asked for: a feature for each value (`one_hot`), or for each word (`words`).
    """
    columns, notes, texts, empty = [], [], [], []
    for name in names:
        position = table.position(name, option="a feature")
        if name in words:
            columns.append(ColumnEncoding(name, "words", values=_vocabulary(table, position)))
            if not columns[-1].values:
                notes.append(f"{table.source}: no word of {name!r} is in two rows, so it gives no feature.")
        elif name in one_hot:
            columns.append(ColumnEncoding(name, "category", values=_categories(table, position)))
        else:
            values = table.numbers(position)
            if values is None:
                _check_slip(table, position)
                texts.append(name)
            elif np.isnan(values).all():
                empty.append(name)
            else:
                columns.append(_number(name, values))
    if empty:
        notes.append(f"{table.source}: no features, because empty: {listed(empty)}.")
    if texts:
        notes.append(
            f"{table.source}: no features, because text: {listed(texts)}; --one-hot or --words makes them some."
        )
    as_they_are = all(column.kind != "number" or (column.center, column.scale) == (0, 1) for column in columns)
    positive = all(column.kind != "number" or _none_below_zero(table, column.name) for column in columns)
    return FeatureEncoding(tuple(columns), sums_to_one=as_they_are and positive, left_out=(*texts, *empty)), notes


def _check_slip(table: Table, position: int) -> None:
    """A text among numbers is more likely a mistake than a column of text."""
    row = table.slip(position)
    if row is not None:
        raise InvalidInput(
            f"{table.at(row, position)} must be a number as nearly all of the column, got "
            f"{table.texts(position)[row]!r}; mend it, leave the cell empty, or name the column after --one-hot, "
            "--words or --ignore."
        )


def _number(name: str, values: np.ndarray) -> ColumnEncoding:
    known = values[~np.isnan(values)]
    if not len(known) or (known == 0).mean() > MOSTLY:
        return ColumnEncoding(name, "number")
    center, spread = float(known.mean()), float(known.std())
    constant = spread <= ROUNDING * np.abs(known).max()
    return ColumnEncoding(name, "number", center=center, scale=1.0 if constant else spread)


def _none_below_zero(table: Table, name: str) -> bool:
    values = table.numbers(table.columns.index(name))
    return values is None or not (values < 0).any()


def _categories(table: Table, position: int) -> tuple[str, ...]:
    values = sorted({text for text in table.texts(position) if text})
    if len(values) > MAX_VALUES:
        raise InvalidInput(
            f"{table.source}, column {table.columns[position]!r} must have at most {MAX_VALUES} values to be one-hot, "
            f"got {len(values)}; name it after --words, or leave it out."
        )
    return tuple(values)


def _vocabulary(table: Table, position: int) -> tuple[str, ...]:
    """The words that are in at least two rows."""
    rows = Counter(word for text in table.texts(position) for word in set(words_of(text)))
    return tuple(sorted(word for word, count in rows.items() if count >= RARE))


def words_of(text: str) -> list[str]:
    """
    >>> words_of("Graphs, graphs & NODES")
    ['graphs', 'graphs', 'nodes']
    """
    return WORD.findall(text.lower())


def _scaled(column: ColumnEncoding, table: Table) -> tuple[sparse.csr_matrix, int]:
    """A column of numbers, and how many are missing."""
    values = table.all_numbers(table.columns.index(column.name))
    missing = np.isnan(values)
    scaled = np.where(missing, 0, (values - column.center) / column.scale)
    return sparse.csr_matrix(scaled[:, None]), int(missing.sum())


def _marked(column: ColumnEncoding, table: Table) -> tuple[sparse.csr_matrix, int, int]:
    """How often each value or word is in each row, in how many cells a value is not known, and how many are empty."""
    numbers = {value: number for number, value in enumerate(column.values)}
    pairs, strange = [], 0
    texts = table.texts(table.columns.index(column.name))
    for row, text in enumerate(texts):
        for part in words_of(text) if column.kind == "words" else [text] if text else []:
            if part in numbers:
                pairs.append((row, numbers[part]))
            else:
                strange += column.kind == "category"
    rows, features = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    marks = sparse.csr_matrix((np.ones(len(rows)), (rows, features)), shape=(len(table), len(numbers)))
    return marks, strange, texts.count("")
