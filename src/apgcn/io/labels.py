"""Labels from a column of classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apgcn._utils.formatting import format_counts, format_names, pluralize
from apgcn.errors import InvalidInput
from apgcn.io.cells import MISSING, is_encodable, parse_numbers, without_decimal_zero
from apgcn.io.schema import TableSchema
from apgcn.io.tables import Table

OTHER_MISSING_MARKS = ("nan", "-1", "-1.0")  # other tools write these where a class is unknown
UNKNOWN_NUMBERS = ("-1", "-1.0")  # PyTorch Geometric and scikit-learn mark nodes without a class so
MAX_FRACTIONAL_CLASSES = 50  # more distinct numbers with fractions are taken for a regression target
MAX_SHOWN = 50  # classes in a message
INTEGER = re.compile(r"-?[0-9]+")


class EncodedLabels(NamedTuple):
    """Labels of a node table.

    Attributes
    ----------
    labels : array of shape (nodes,)
        Index of each node's class, -1 where it is unknown.
    class_names : tuple of str
    column : int or None
        Index of the label column; None if there is none.
    dropped_classes : tuple of str
        Classes with too few labelled nodes, which are treated as unknown.
    notes : list of str
    """

    labels: np.ndarray
    class_names: tuple[str, ...]
    column: int | None
    dropped_classes: tuple[str, ...]
    notes: list[str]


def encode_labels(nodes: Table, schema: TableSchema, class_names: Sequence[str] | None) -> EncodedLabels:
    """Class of every node.

    With the class names of a trained model the label column may be missing, and other classes are errors.
    """
    known, dropped = tuple(class_names or ()), tuple(schema.dropped_classes)
    if schema.label is None or (class_names is not None and schema.label not in nodes.columns):
        return EncodedLabels(np.full(len(nodes), -1), known, None, dropped, [])
    column = nodes.column_index(schema.label, option="--label")
    marks = (MISSING | set(dropped)) - set(known) | _unknown_numbers(nodes, column, known)
    unknown = Counter(text for text in nodes.as_text(column) if text and text in marks)
    cells = ["" if text in marks else text for text in nodes.as_text(column)]
    notes = []
    if unknown:
        notes.append(
            f"{_place(nodes, column)}: {pluralize(unknown.total(), 'label')} read as unknown: {format_counts(unknown)}."
        )
    if class_names is not None:
        labels = _class_indices(nodes, column, cells, known)
        matched = sum(bool(text) and text not in known for text in set(cells))
        if matched:
            notes.append(f"{_place(nodes, column)}: classes matched with or without the decimals .0: {matched}.")
        return EncodedLabels(labels, known, column, dropped, notes)
    classes = Counter(text for text in cells if text)
    _check_is_no_regression_target(nodes, column, classes)
    small = {name: count for name, count in classes.items() if count < schema.min_class}
    if small:
        notes.append(
            f"{_place(nodes, column)}: classes with fewer than {schema.min_class} labelled nodes are treated as "
            f"unknown: {format_counts(small, max_shown=MAX_SHOWN)}."
        )
    names = tuple(sorted(set(classes) - set(small), key=_numbers_first))
    labels = _class_indices(nodes, column, ["" if text in small else text for text in cells], names)
    _check_classes(nodes, column, {name: classes[name] for name in names}, labels, small=small)
    return EncodedLabels(labels, names, column, tuple(sorted(small)), notes)


def _unknown_numbers(nodes: Table, column: int, known: Sequence[str]) -> set[str]:
    """The spellings of -1 if it marks an unknown class: among three integers or more, of which no other is negative.

    -1 and 1 alone are two classes.

    Raises
    ------
    InvalidInput
        If the labels are -1, 0 and 1, which may be three classes.
    """
    if known:
        return {text for text in UNKNOWN_NUMBERS if text not in known}
    present = {text for text in nodes.as_text(column) if text and text not in MISSING}
    integers = {int(without_decimal_zero(text)) for text in present if INTEGER.fullmatch(without_decimal_zero(text))}
    if len(integers) < len(present) or len(present) < 3 or min(integers) != -1:
        return set()
    if integers == {-1, 0, 1}:
        raise InvalidInput(
            f"{_place(nodes, column)} must show what -1 means beside 0 and 1; leave the cell empty where the class is "
            "unknown, or write the classes as text, such as negative, neutral and positive."
        )
    return set(UNKNOWN_NUMBERS)


def _class_indices(nodes: Table, column: int, cells: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    """Index of every cell's class, -1 where the cell is empty; 1 and 1.0 match, unless both are classes."""
    class_index = {name: index for index, name in enumerate(classes)}
    shortened = {without_decimal_zero(name): index for index, name in enumerate(classes)}
    if len(shortened) < len(classes):
        shortened = {}
    labels = np.full(len(cells), -1)
    for row, text in enumerate(cells):
        if "\0" in text or not is_encodable(text):
            raise InvalidInput(f"{nodes.location(row, column)} must be a class, but {text!r} is no valid text.")
        if text.lower() in OTHER_MISSING_MARKS and text not in class_index:
            raise InvalidInput(
                f"{nodes.location(row, column)} must be a class, got {text!r}; leave the cell empty where the class is "
                "unknown."
            )
        if text:
            index = class_index.get(text, shortened.get(without_decimal_zero(text)))
            if index is None:
                raise InvalidInput(
                    f"{nodes.location(row, column)} must be one of {format_names(classes)}, got {text!r}."
                )
            labels[row] = index
    return labels


def _check_is_no_regression_target(nodes: Table, column: int, classes: Mapping[str, int]) -> None:
    """Numbers with fractions, of which most or very many are distinct, are no classes."""
    values = parse_numbers(list(classes), decimal_comma=nodes.decimal_comma)
    if values is None or not np.isfinite(values).all() or (values == np.round(values)).all():
        return
    labelled = sum(classes.values())
    if len(classes) > min(MAX_FRACTIONAL_CLASSES, labelled / 2):
        raise InvalidInput(
            f"{_place(nodes, column)} must contain classes, but looks like a regression target: {len(classes):,} "
            f"distinct numbers in {pluralize(labelled, 'row')}, such as {format_names(list(classes), max_shown=3)}; "
            "divide them into bins, each with a name, or pass another column to --label."
        )


def _check_classes(
    nodes: Table, column: int, classes: Mapping[str, int], labels: np.ndarray, *, small: Mapping[str, int]
) -> None:
    """Training needs two classes or more, and two nodes or more of each; `small` are the classes that were dropped."""
    place = _place(nodes, column)
    reason = (
        f" that have as many labelled nodes as --min-class requires, got {len(small)} smaller ones" if small else ""
    )
    if not classes and not small:
        raise InvalidInput(f"{place} must contain the classes of some nodes, but all its cells are empty.")
    if len(classes) < 2:
        only = f"there is only {next(iter(classes))!r}" if classes else "there is none"
        raise InvalidInput(f"{place} must contain two classes or more{reason}, but {only}.")
    single = [name for name, count in classes.items() if count < 2]
    need = "but every class needs one node for training and one for early stopping"
    if len(single) == 1:
        row = int(np.flatnonzero(labels == list(classes).index(single[0]))[0])
        raise InvalidInput(
            f"{nodes.location(row, column)} is the only node of class {single[0]!r}, {need}; label another node, or "
            "pass --min-class 2, which treats the class as unknown."
        )
    if single:
        raise InvalidInput(
            f"{place} has one labelled node of each of {len(single):,} classes, {need}: "
            f"{format_names(single, max_shown=MAX_SHOWN)}; label more nodes, or pass --min-class 2, which treats these "
            "classes as unknown."
        )


def _place(nodes: Table, column: int) -> str:
    return f"{nodes.source}, column {nodes.columns[column]!r}"


def _numbers_first(text: str) -> tuple[bool, float, str]:
    """Sort key: numbers by value, then other texts alphabetically."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
