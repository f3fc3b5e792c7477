"""Encoding of table columns as features.

An encoding is fitted once, to the table that a model is trained on, and saved with the model, so that the same columns
of another table become the same features.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import format_counts, format_names, pluralize
from apgcn.errors import InvalidInput
from apgcn.io.tables import Table

ColumnKind = Literal["number", "category", "bag_of_words"]

# Fraction of zeros above which a column (counts, indicators) is neither centred nor scaled, and a matrix stays sparse.
SPARSE_THRESHOLD = 0.5
OUTLIER_DISTANCE = 100  # standard deviations from the mean: possibly a mistake
CONSTANT_TOLERANCE = 1e-9  # standard deviation, relative to the largest value, up to which a column is constant
MIN_DOCUMENT_FREQUENCY = 2  # rows in which a word must occur to be a feature
MAX_CATEGORIES = 1000  # of a one-hot column

TOKEN = re.compile(r"\w+")


@dataclass(frozen=True)
class ColumnEncoding:
    """Encoding of one column.

    Attributes
    ----------
    name : str
    kind : "number", "category" or "bag_of_words"
    center, scale : float
        A number x becomes (x - center) / scale; a missing one becomes 0.
    values : tuple of str
        The categories, or the vocabulary; each is a feature.
    """

    name: str
    kind: ColumnKind
    center: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [self.name] if self.kind == "number" else [f"{self.name}={value}" for value in self.values]


@dataclass(frozen=True)
class FeatureEncoding:
    """Encoding of a table.

    Attributes
    ----------
    columns : tuple of ColumnEncoding
    normalize_rows : bool
        Whether every row is divided by its sum, as the benchmark does with word counts.
    excluded : tuple of str
        Columns of the training table that are no features.
    """

    columns: tuple[ColumnEncoding, ...]
    normalize_rows: bool
    excluded: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: Table) -> tuple[sparse.csr_matrix | np.ndarray, list[str]]:
        """Features of a table, (rows, features), sparse where most are zero, and notes about replaced values."""
        missing_columns = [column.name for column in self.columns if column.name not in table.positions]
        if missing_columns:
            raise InvalidInput(
                f"{table.source} must have the columns that the model was trained on, but lacks "
                f"{format_names(missing_columns)}."
            )
        blocks = []
        missing_as_mean: dict[str, int] = {}  # column -> number of cells, as in the next three
        missing_as_zero: dict[str, int] = {}
        unseen: dict[str, int] = {}
        outliers: dict[str, int] = {}
        for column in self.columns:
            if column.kind == "number":
                block, missing = _standardize(column, table)
                outliers[column.name] = int((np.abs(block.data) > OUTLIER_DISTANCE).sum()) if column.center else 0
                (missing_as_mean if column.center else missing_as_zero)[column.name] = missing
            else:
                block, unseen[column.name], missing = _count_values(column, table)
                missing_as_zero[column.name] = missing if column.kind == "category" else 0
            blocks.append(block)
        notes = [
            f"{table.source}: {pluralize(sum(counts.values()), noun)} {what}: {_format_columns(counts)}."
            for counts, noun, what in (
                (missing_as_mean, "missing value", "replaced by the mean"),
                (missing_as_zero, "missing value", "replaced by 0"),
                (unseen, "value", "not seen in training, treated as missing"),
                (outliers, "value", f"more than {OUTLIER_DISTANCE} standard deviations from the mean"),
            )
            if any(counts.values())
        ]
        if not blocks:
            return np.zeros((len(table), 0), dtype=np.float32), notes
        features = sparse.hstack(blocks, format="csr", dtype=np.float32)
        if self.normalize_rows:
            self._check_counts(table)
            row_sums = np.asarray(features.sum(axis=1)).ravel()
            features = (
                sparse.diags(np.divide(1.0, row_sums, out=np.zeros_like(row_sums), where=row_sums > 0)) @ features
            )
        dense = features.nnz > (1 - SPARSE_THRESHOLD) * features.shape[0] * features.shape[1]
        return (features.toarray() if dense else features.tocsr()), notes

    def _check_counts(self, table: Table) -> None:
        for encoding in self.columns:
            column = table.positions[encoding.name]
            values = table.as_numbers(column) if encoding.kind == "number" else None
            negative = np.flatnonzero(values < 0) if values is not None else np.empty(0, int)
            if len(negative):
                raise InvalidInput(
                    f"{table.location(negative[0], column)} must be >= 0, as all values in training were."
                )

    def as_json(self) -> dict[str, Any]:
        columns = [dict(vars(column)) for column in self.columns]
        return {"normalize_rows": self.normalize_rows, "columns": columns, "excluded": list(self.excluded)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> FeatureEncoding:
        return cls(
            columns=tuple(map(_column_from_json, content["columns"])),
            normalize_rows=bool(content["normalize_rows"]),
            excluded=tuple(map(str, content["excluded"])),
        )


def _format_columns(counts: Mapping[str, int]) -> str:
    """Columns that occur, with their counts if there are several."""
    present = [name for name in counts if counts[name]]
    return repr(present[0]) if len(present) == 1 else format_counts(counts)


def _column_from_json(content: Mapping[str, Any]) -> ColumnEncoding:
    column = ColumnEncoding(**{**content, "values": tuple(content["values"])})
    strings = (column.name, *column.values)
    if column.kind not in get_args(ColumnKind) or not all(isinstance(string, str) for string in strings):
        raise InvalidInput(f"a column must have a name, a kind and strings as values, got {content!r}.")
    if not np.isfinite([column.center, column.scale]).all() or not column.scale:
        raise InvalidInput(f"column {column.name!r} must have a finite center and a scale that is not 0.")
    return column


def fit_encoding(
    table: Table, names: Sequence[str], *, one_hot: Sequence[str] = (), bag_of_words: Sequence[str] = ()
) -> tuple[FeatureEncoding, list[str]]:
    """Fit an encoding of the named columns to a table; also return notes about columns that give no features.

    Numbers are centred and scaled, except for columns that are mostly zero, which stay as they are. Text becomes
    features only on request: one feature for each value (`one_hot`), or for each word (`bag_of_words`).
    """
    columns: list[ColumnEncoding] = []
    notes: list[str] = []
    text_columns, empty_columns, boolean_columns = [], [], []
    for name in names:
        column = table.column_index(name, option="a feature")
        if name in bag_of_words:
            columns.append(ColumnEncoding(name, "bag_of_words", values=_vocabulary(table, column)))
            if not columns[-1].values:
                notes.append(f"{table.source}: column {name!r} gives no features, because no word occurs in two rows.")
        elif name in one_hot:
            columns.append(ColumnEncoding(name, "category", values=_categories(table, column)))
        else:
            values = table.as_numbers(column)
            if values is None:
                _check_stray_text(table, column)
                text_columns.append(name)
            elif np.isnan(values).all():
                empty_columns.append(name)
            else:
                columns.append(_fit_number(name, values))
                boolean_columns += [name] if table.is_boolean(column) else []
    if boolean_columns:
        notes.append(f"{table.source}: true and false are the numbers 1 and 0: {format_names(boolean_columns)}.")
    if empty_columns:
        notes.append(f"{table.source}: empty columns, not used as features: {format_names(empty_columns)}.")
    if text_columns:
        notes.append(
            f"{table.source}: text columns, not used as features: {format_names(text_columns)}; pass them to --one-hot "
            "or --bag-of-words to use them."
        )
    unscaled = all(column.kind != "number" or (column.center, column.scale) == (0, 1) for column in columns)
    nonnegative = all(column.kind != "number" or _is_nonnegative(table, column.name) for column in columns)
    encoding = FeatureEncoding(
        tuple(columns), normalize_rows=unscaled and nonnegative, excluded=(*text_columns, *empty_columns)
    )
    return encoding, notes


def _check_stray_text(table: Table, column: int) -> None:
    """A few texts among numbers are more likely mistakes than a column of text."""
    row = table.stray_text_row(column)
    if row is not None:
        raise InvalidInput(
            f"{table.location(row, column)} must be a number like nearly all of the column, got "
            f"{table.as_text(column)[row]!r}; correct it, leave the cell empty, or pass the column to --one-hot, "
            "--bag-of-words or --ignore."
        )


def _fit_number(name: str, values: np.ndarray) -> ColumnEncoding:
    known = values[~np.isnan(values)]
    if not len(known) or (known == 0).mean() > SPARSE_THRESHOLD:
        return ColumnEncoding(name, "number")
    mean, std = float(known.mean()), float(known.std())
    constant = std <= CONSTANT_TOLERANCE * np.abs(known).max()
    return ColumnEncoding(name, "number", center=mean, scale=1.0 if constant else std)


def _is_nonnegative(table: Table, name: str) -> bool:
    values = table.as_numbers(table.positions[name])
    return values is None or not (values < 0).any()


def _categories(table: Table, column: int) -> tuple[str, ...]:
    values = sorted({text for text in table.as_text(column) if text})
    if len(values) > MAX_CATEGORIES:
        raise InvalidInput(
            f"{table.source}, column {table.columns[column]!r} must have at most {MAX_CATEGORIES} distinct values for "
            f"--one-hot, got {len(values)}; pass it to --bag-of-words or --ignore."
        )
    return tuple(values)


def _vocabulary(table: Table, column: int) -> tuple[str, ...]:
    """Words that occur in at least two rows, in alphabetical order."""
    frequency = Counter(word for text in table.as_text(column) for word in set(tokenize(text)))
    return tuple(sorted(word for word, rows in frequency.items() if rows >= MIN_DOCUMENT_FREQUENCY))


def tokenize(text: str) -> list[str]:
    """Words of a text, in lower case.

    >>> tokenize("Graphs, graphs & NODES")
    ['graphs', 'graphs', 'nodes']
    """
    return TOKEN.findall(text.lower())


def _standardize(column: ColumnEncoding, table: Table) -> tuple[sparse.csr_matrix, int]:
    """Centred and scaled numbers, (rows, 1), and how many cells are missing."""
    values = table.require_numbers(table.positions[column.name])
    missing = np.isnan(values)
    scaled = np.where(missing, 0, (values - column.center) / column.scale)
    return sparse.csr_matrix(scaled[:, None]), int(missing.sum())


def _count_values(column: ColumnEncoding, table: Table) -> tuple[sparse.csr_matrix, int, int]:
    """Counts of each category or word in each row, (rows, values), and how many cells are unseen and empty."""
    feature_index = {value: index for index, value in enumerate(column.values)}
    entries, unseen = [], 0
    cells = table.as_text(table.positions[column.name])
    for row, text in enumerate(cells):
        for value in tokenize(text) if column.kind == "bag_of_words" else [text] if text else []:
            if value in feature_index:
                entries.append((row, feature_index[value]))
            else:
                unseen += column.kind == "category"
    rows, features = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, features)), shape=(len(table), len(feature_index)))
    return counts, unseen, cells.count("")
