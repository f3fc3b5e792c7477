"""Stratified splits of the labelled nodes of a user's graph."""

import numpy as np
import pytest

from apgcn import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.splits import missing_class_notes, stratified_split


def test_every_class_is_held_out_and_trained_on():
    labels = np.array([0] * 50 + [1] * 2 + [2] * 3 + [-1] * 20)
    split = stratified_split(labels, stopping_size=0.2, test_size=0.2)
    for name, counts in (("test", [10, 0, 1]), ("stopping", [10, 1, 1]), ("train", [30, 1, 1])):
        assert np.bincount(labels[getattr(split, name)], minlength=3).tolist() == counts, name
    assert (stratified_split(labels, seed=1).train != stratified_split(labels).train).any()
    with pytest.raises(InvalidInput, match="some class must have two labelled nodes"):
        stratified_split(np.array([0, 1, -1]))
    with pytest.raises(InvalidInput, match="less than 1 together"):
        stratified_split(labels, stopping_size=0.6, test_size=0.5)


def test_classes_that_are_too_small_for_a_set_are_named():
    labels = np.array([0] * 10 + [1] * 2 + [2] * 5)
    graph = Graph(np.eye(17), np.eye(17), labels, class_names=("large", "small", "medium"))
    split = stratified_split(labels, test_size=0.2)
    notes = missing_class_notes(graph, split, sets=("stopping", "test"))
    assert notes == ["too few labelled nodes for the test set: 'small'."]
    with pytest.raises(InvalidInput, match="labels must have at least two classes"):
        stratified_split(np.zeros(5, int))
