"""Training on a user's graph."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn.errors import InvalidInput
from apgcn.inference.fit import fit, fit_predict
from apgcn.inference.splits import stratified_split
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.gcn import GCNConfig
from apgcn.training.config import TrainingConfig


def test_name_of_the_graph_changes_no_prediction(cora):
    probabilities = [
        fit(graph, stratified_split(cora.labels), APGCNConfig(), TrainingConfig(max_epochs=3))
        .predict(graph)
        .probabilities
        for graph in (cora, replace(cora, name="another"))
    ]
    np.testing.assert_array_equal(*probabilities)


@pytest.mark.parametrize("model", [APGCNConfig(penalty=0.05), GCNConfig()])
def test_predictions_of_the_training_are_those_of_the_model(model):
    graph = two_communities()
    split = stratified_split(graph.labels, test_size=0.2)
    trained, predictions = fit_predict(graph, split, model, TrainingConfig(max_epochs=50), ensemble_size=2)
    expected = trained.predict(graph)
    np.testing.assert_allclose(predictions.probabilities, expected.probabilities, atol=2e-5)
    np.testing.assert_array_equal(predictions.steps, expected.steps)
    np.testing.assert_allclose(predictions.remainder, expected.remainder, atol=2e-5)
    correct = expected.classes[split.test] == graph.labels[split.test]
    assert trained.metrics["test"]["accuracy"] == pytest.approx(correct.mean())


def test_predictions_that_are_not_finite_are_refused():
    graph = two_communities()
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=3))
    with pytest.raises(InvalidInput, match="predictions must be finite, got infinite or NaN logits"):
        trained.predict(replace(graph, features=np.full((60, 2), 3e38)))
