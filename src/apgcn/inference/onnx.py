"""How does a trained model leave for another runtime? As an ONNX graph, which takes any number of nodes and edges."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from apgcn._utils.atomic import write_whole
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.models.apgcn import APGCNConfig
from apgcn.nn import APGCN

INPUTS, OUTPUTS = ("x", "edge_index", "edge_weight"), ("probabilities", "steps")


class Answering(nn.Module):
    """A trained AP-GCN as a module of PyTorch: the mean of what its initialisations say.

    Shapes
    ------
    x : (nodes, features)
    edge_index : (2, edges), whose second row hears the first; edge_weight : (edges,)
    output : probabilities (nodes, classes) and steps (nodes,)
    """

    def __init__(self, fitted: TrainedModel):
        super().__init__()
        if type(fitted.model) is not APGCNConfig:
            raise InvalidInput(f"a model must be AP-GCN to be exported, but it is {fitted.model.title}.")
        self.temperature = fitted.temperature
        self.initialisations = nn.ModuleList(_module(fitted, number) for number in range(fitted.initialisations))
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        probabilities, taken = [], []
        for one in self.initialisations:
            output, steps, _ = one(x, edge_index, edge_weight, return_steps=True)
            probabilities.append((output / self.temperature).softmax(-1))
            taken.append(steps.to(x.dtype))
        return torch.stack(probabilities).mean(0), torch.stack(taken).mean(0)


def write_onnx(path: Path, fitted: TrainedModel, *, encoding: FeatureEncoding | None = None) -> None:
    """Write the model, whole or not at all.

    In its metadata are the names of the classes and, with an encoding, those of the features and how they are made of
    a table's columns, which is not part of the graph.

    Raises
    ------
    MissingPackage
        If onnx or onnxscript is not installed.
    InvalidInput
        If the model is another one than AP-GCN.
    """
    answering = Answering(fitted)
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingPackage('ONNX files need onnx and onnxscript: pip install "apgcn[onnx]"') from None
    example = (torch.rand(3, fitted.features), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4))
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges")
    with _quietly():
        made: Any = torch.onnx.export(
            answering,
            example,
            dynamo=True,
            verbose=False,
            input_names=INPUTS,
            output_names=OUTPUTS,
            dynamic_shapes=({0: nodes}, {1: edges}, {0: edges}),
        )
    told: dict[str, Any] = {"classes": fitted.class_names}
    if encoding is not None:
        told |= {"features": encoding.feature_names, "encoding": encoding.as_json()}
    made.model.metadata_props.update({what: json.dumps(given) for what, given in told.items()})
    write_whole(Path(path), lambda file: file.write(_bytes(made)))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says about its own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _bytes(made: Any) -> bytes:
    content = io.BytesIO()
    made.save(content)
    return content.getvalue()


def _module(fitted: TrainedModel, number: int) -> APGCN:
    """One initialisation; our layers keep weights as (runs, in, out), PyTorch's as (out, in)."""
    model = fitted.model
    assert isinstance(model, APGCNConfig)
    own = {name: weight[number] for name, weight in fitted.weights.items()}
    module = APGCN(
        fitted.features,
        model.hidden_channels,
        len(fitted.class_names),
        max_steps=model.max_steps,
        epsilon=model.epsilon,
        freeze_halted=model.freeze_halted,
    )
    names = {"predict.first": "lin1", "predict.second": "lin2", "propagation.halting_unit": "propagation.halting_unit"}
    state = {}
    for ours, theirs in names.items():
        state[f"{theirs}.weight"] = own[f"{ours}.weight"].T.contiguous()
        state[f"{theirs}.bias"] = own[f"{ours}.bias"].reshape(-1)
    module.load_state_dict(state)
    return module
