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

from apgcn.errors import InvalidInput
from apgcn.io.tables import Table, listed

Kind = Literal["number", "category", "words"]

MOSTLY = 0.5  # of a column's cells are zero, and it stays as it is: a count or a mark, which centring would fill up
RARE = 2  # rows in which a word must be to be a feature
MOST_VALUES = 1000  # of a column in one-hot form

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Column:
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
class Encoding:
    """How a table is encoded.

    `sums_to_one` says that every row is divided by its sum, as the benchmark does with counts of words.
    """

    columns: tuple[Column, ...]
    sums_to_one: bool

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
        blocks, missing, strange = [], {}, {}
        for column in self.columns:
            if column.kind == "number":
                block, missing[column.name] = _scaled(column, table)
            else:
                block, strange[column.name] = _marked(column, table)
            blocks.append(block)
        notes = [
            f"{table.source}: {sum(counts.values())} values {what} in {listed([one for one in counts if counts[one]])}."
            for counts, what in (
                (missing, "are missing and count as the mean"),
                (strange, "were not met in training and count as missing"),
            )
            if any(counts.values())
        ]
        together = sparse.hstack(blocks, format="csr", dtype=np.float32) if blocks else None
        if together is None:
            return np.zeros((len(table), 0), dtype=np.float32), notes
        if self.sums_to_one:
            sums = np.asarray(together.sum(axis=1)).ravel()
            together = sparse.diags(np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)) @ together
        dense = together.nnz > MOSTLY * together.shape[0] * together.shape[1]
        return (together.toarray() if dense else together.tocsr()), notes

    def as_json(self) -> dict[str, Any]:
        return {"sums_to_one": self.sums_to_one, "columns": [dict(vars(column)) for column in self.columns]}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Encoding:
        return cls(columns=tuple(map(_column, given["columns"])), sums_to_one=bool(given["sums_to_one"]))


def _column(given: Mapping[str, Any]) -> Column:
    column = Column(**{**given, "values": tuple(given["values"])})
    texts = (column.name, *column.values)
    if column.kind not in get_args(Kind) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"a column must have a name, a kind and texts as values, got {given!r}.")
    if not np.isfinite([column.center, column.scale]).all() or not column.scale:
        raise InvalidInput(f"column {column.name!r} must have a finite center and a scale that is not 0.")
    return column


def find_encoding(
    table: Table, names: Sequence[str], *, one_hot: Sequence[str] = (), words: Sequence[str] = ()
) -> tuple[Encoding, list[str]]:
    """How to encode some columns of a table, and what is to be said about it.

    Numbers are centred and scaled, but for columns that are mostly zero, which stay as they are. Text becomes features
    only where it is asked for: a feature for each value (`one_hot`), or for each word (`words`).
    """
    columns, notes, left_out = [], [], []
    for name in names:
        position = table.position(name, option="a feature")
        if name in words:
            columns.append(Column(name, "words", values=_vocabulary(table, position)))
        elif name in one_hot:
            columns.append(Column(name, "category", values=_categories(table, position)))
        else:
            values = table.numbers(position)
            if values is None:
                left_out.append(name)
            else:
                columns.append(_number(name, values))
    if left_out:
        notes.append(
            f"{table.source}: {listed(left_out)} hold text and are no features; name them after --one-hot or --words "
            "if they should be."
        )
    as_they_are = all(column.kind != "number" or (column.center, column.scale) == (0, 1) for column in columns)
    positive = all(column.kind != "number" or _none_below_zero(table, column.name) for column in columns)
    return Encoding(tuple(columns), sums_to_one=as_they_are and positive), notes


def _number(name: str, values: np.ndarray) -> Column:
    known = values[~np.isnan(values)]
    if not len(known) or (known == 0).mean() > MOSTLY:
        return Column(name, "number")
    spread = float(known.std())
    return Column(name, "number", center=float(known.mean()), scale=spread if spread > 0 else 1.0)


def _none_below_zero(table: Table, name: str) -> bool:
    values = table.numbers(table.columns.index(name))
    return values is None or not (values < 0).any()


def _categories(table: Table, position: int) -> tuple[str, ...]:
    values = sorted({text for text in table.texts(position) if text})
    if len(values) > MOST_VALUES:
        raise InvalidInput(
            f"{table.source}, column {table.columns[position]!r} must have at most {MOST_VALUES} values to be one-hot, "
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


def _scaled(column: Column, table: Table) -> tuple[sparse.csr_matrix, int]:
    """A column of numbers, and how many are missing."""
    values = table.all_numbers(table.columns.index(column.name))
    missing = np.isnan(values)
    scaled = np.where(missing, 0, (values - column.center) / column.scale)
    return sparse.csr_matrix(scaled[:, None]), int(missing.sum())


def _marked(column: Column, table: Table) -> tuple[sparse.csr_matrix, int]:
    """How often each value or word is in each row, and in how many cells a value is that is not known."""
    numbers = {value: number for number, value in enumerate(column.values)}
    pairs, strange = [], 0
    for row, text in enumerate(table.texts(table.columns.index(column.name))):
        for part in words_of(text) if column.kind == "words" else [text] if text else []:
            if part in numbers:
                pairs.append((row, numbers[part]))
            else:
                strange += column.kind == "category"
    rows, features = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_matrix((np.ones(len(rows)), (rows, features)), shape=(len(table), len(numbers))), strange
