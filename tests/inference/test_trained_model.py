"""Trained models that use known labels: the labels of another graph, and what cannot be done without labels."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn.cli import run
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle, save_model
from apgcn.inference.fit import evaluate_with_labels, fit
from apgcn.inference.known_labels import CorrectAndSmooth
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.lp import LPConfig
from apgcn.training.config import TrainingConfig


def corrected_model(graph, split) -> TrainedModel:
    trained = fit(graph, split, APGCNConfig(), TrainingConfig(max_epochs=3))
    return evaluate_with_labels(replace(trained, correct_and_smooth=CorrectAndSmooth()), graph).model


@pytest.fixture(scope="module")
def graph():
    return two_communities()


@pytest.fixture(scope="module", params=["lp", "C&S"])
def model(request, graph):
    split = stratified_split(graph.labels, test_size=0.2)
    return fit(graph, split, LPConfig(), TrainingConfig()) if request.param == "lp" else corrected_model(graph, split)


def test_labels_of_another_graph_are_found_by_the_names_of_their_classes(model, graph):
    """In another order, and beside a class that no node has."""
    expected = model.predict(graph).probabilities
    assert (model.predict(graph).classes == np.arange(60) % 2).mean() > 0.9
    other_order = replace(graph, labels=np.where(graph.labels < 0, -1, 2 - graph.labels), class_names=("w", "y", "x"))
    np.testing.assert_array_equal(model.predict(other_order).probabilities, expected)
    np.testing.assert_array_equal(model.predict(other_order, np.array([7, 3])).probabilities, expected[[7, 3]])
    other_class = replace(graph, labels=graph.labels + 1, class_names=("w", "x", "y"))
    with pytest.raises(InvalidInput, match=r"must be classes of the model, 'x', 'y', got 'w'; leave out"):
        model.predict(other_class)


def test_known_labels_are_needed_to_predict_without_weights(graph):
    unlabelled = replace(graph, labels=np.full(60, -1))
    split = stratified_split(graph.labels)
    with pytest.raises(InvalidInput, match="must have labels of some nodes, from which LP predicts the others"):
        fit(graph, split, LPConfig(), TrainingConfig()).predict(unlabelled)
    corrected = corrected_model(graph, split)
    expected = replace(corrected, correct_and_smooth=None).predict(unlabelled)
    np.testing.assert_array_equal(corrected.predict(unlabelled).probabilities, expected.probabilities)


def test_a_corrected_model_is_neither_exported_nor_explained(graph, tmp_path, capsys):
    """Both would show predictions without the correction."""
    save_model(tmp_path / "m", ModelBundle(corrected_model(graph, stratified_split(graph.labels)), graph))
    for command, option in (("export", "--onnx"), ("explain", "--html")):
        assert run([command, str(tmp_path / "m"), option, str(tmp_path / f"out.{option[2:]}")]) == 2
        assert "but it is AP-GCN + C&S; fit it without --correct-and-smooth." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
