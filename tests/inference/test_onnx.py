"""Models as PyTorch modules and ONNX files; tests/cli/test_fit.py runs an exported file."""

import numpy as np
import pytest
import torch
from helpers.graphs import two_communities

from apgcn.cli import run
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle, save_model
from apgcn.inference.fit import fit
from apgcn.inference.onnx import EnsembleModule, write_onnx
from apgcn.inference.splits import stratified_split
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.gcn import GCNConfig
from apgcn.training.config import TrainingConfig


def test_only_ap_gcn_is_exported_frozen_or_not(tmp_path):
    graph = two_communities()
    config = APGCNConfig(penalty=0.05, freeze_halted=True)
    trained = fit(graph, stratified_split(graph.labels), config, TrainingConfig(max_epochs=150))
    predictions, edges = trained.predict(graph), graph.adjacency.tocoo()
    inputs = (torch.as_tensor(graph.features.copy()), torch.as_tensor(np.stack([edges.row, edges.col])).long())
    probabilities, steps = EnsembleModule(trained)(*inputs, torch.as_tensor(edges.data.copy()))
    np.testing.assert_allclose(probabilities.detach(), predictions.probabilities, atol=1e-5)
    assert steps.tolist() == predictions.steps.tolist()
    trained = fit(graph, stratified_split(graph.labels), GCNConfig(), TrainingConfig(max_epochs=2))
    with pytest.raises(InvalidInput, match="must be AP-GCN to be exported, but it is GCN"):
        write_onnx(tmp_path / "m.onnx", trained)


def test_an_interruption_during_an_export_is_one_line(tmp_path, monkeypatch, capsys):
    """The exporter turns it into an error of its own."""

    def export(*_, **__):
        try:
            try:
                raise KeyboardInterrupt
            except BaseException as error:
                raise TypeError("of an operator") from error
        except BaseException as error:
            raise RuntimeError("failed to convert the model") from error

    graph = two_communities()
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=1))
    save_model(tmp_path / "m", ModelBundle(trained, graph))
    monkeypatch.setattr(torch.onnx, "export", export)
    assert run(["export", str(tmp_path / "m"), "--onnx", str(tmp_path / "m.onnx")]) == 130
    assert capsys.readouterr() == ("", "apgcn: interrupted.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
