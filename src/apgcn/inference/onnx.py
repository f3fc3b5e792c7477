"""Export of trained models to ONNX, with dynamic numbers of nodes and edges."""

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

from apgcn._utils.atomic import atomic_write
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.structure_encoding import StructureEncoding
from apgcn.models.apgcn import APGCNConfig, BatchedAPGCN
from apgcn.nn import APGCN

INPUTS, OUTPUTS = ("x", "edge_index", "edge_weight"), ("probabilities", "steps")


class EnsembleModule(nn.Module):
    """A trained AP-GCN as a PyTorch module that averages the predictions of its ensemble.

    Shapes
    ------
    x : (nodes, features)
    edge_index : (2, edges), sources and targets
    edge_weight : (edges,)
    returned : probabilities (nodes, classes) and steps (nodes,)
    """

    def __init__(self, model: TrainedModel):
        super().__init__()
        if type(model.config) is not APGCNConfig:
            raise InvalidInput(f"a model must be AP-GCN to be exported, but it is {model.config.title}.")
        if model.uses_known_labels:
            raise InvalidInput(
                f"a model must predict without known labels to be exported, but it is {model.title}; fit it without "
                "--correct-and-smooth."
            )
        self.temperature = model.temperature
        self.members = nn.ModuleList(_to_module(model.member(number)) for number in range(model.ensemble_size))
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        probabilities, steps = [], []
        for member in self.members:
            output, member_steps, _ = member(x, edge_index, edge_weight, return_steps=True)
            probabilities.append((output / self.temperature).softmax(-1))
            steps.append(member_steps.to(x.dtype))
        return torch.stack(probabilities).mean(0), torch.stack(steps).mean(0)


def write_onnx(
    path: Path,
    model: TrainedModel,
    *,
    encoding: FeatureEncoding | None = None,
    structure: StructureEncoding | None = None,
) -> None:
    """Write a model as an ONNX file; after an error no file is left.

    Its metadata hold the names of the classes and, with an encoding or structural features, the names of the features
    and how they are computed, which the ONNX graph does not do.

    Raises
    ------
    MissingPackage
        If onnx or onnxscript is not installed.
    InvalidInput
        If the model is not AP-GCN.
    """
    module = EnsembleModule(model)
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingPackage('ONNX files need onnx and onnxscript: pip install "apgcn[onnx]"') from None
    example = (torch.rand(3, model.num_features), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4))
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges")
    with _silent_exporter():
        program: Any = torch.onnx.export(
            module,
            example,
            dynamo=True,
            verbose=False,
            input_names=INPUTS,
            output_names=OUTPUTS,
            dynamic_shapes=({0: nodes}, {1: edges}, {0: edges}),
        )
    metadata: dict[str, Any] = {"classes": model.class_names}
    if encoding is not None:
        metadata |= {"features": encoding.feature_names, "encoding": encoding.as_json()}
    if structure is not None:
        metadata |= {"structure": structure.as_json()}
        metadata["features"] = [*metadata.get("features", []), *structure.feature_names]
    program.model.metadata_props.update({name: json.dumps(value) for name, value in metadata.items()})
    content = io.BytesIO()
    program.save(content)
    atomic_write(Path(path), lambda file: file.write(content.getvalue()))


@contextmanager
def _silent_exporter() -> Iterator[None]:
    """Suppress the warnings and log messages of the exporter, and its errors about an interruption."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # the exporter turns KeyboardInterrupt into an error of its conversion
        if _is_caused_by_interruption(error):
            raise KeyboardInterrupt from None
        raise
    finally:
        logging.disable(level)


def _is_caused_by_interruption(error: BaseException) -> bool:
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _is_caused_by_interruption(cause))


def _to_module(member: TrainedModel) -> APGCN:
    """One member of an ensemble; the batched layers store weights as (runs, in, out), PyTorch as (out, in)."""
    config, batched = member.config, member.build_without_graph()
    assert isinstance(config, APGCNConfig)
    assert isinstance(batched, BatchedAPGCN)
    module = APGCN(
        member.num_features,
        config.hidden_channels,
        len(member.class_names),
        max_steps=config.max_steps,
        epsilon=config.epsilon,
        freeze_halted=config.freeze_halted,
        min_steps=config.min_steps,
    )
    layers = [
        (batched.predict.first, module.lin1),
        (batched.predict.second, module.lin2),
        (batched.propagation.halting_unit, module.propagation.halting_unit),
    ]
    if config.min_steps == 0:
        layers.append((batched.propagation.initial_halting_unit, module.propagation.initial_halting_unit))
    with torch.no_grad():
        for source, target in layers:
            target.weight.copy_(source.weight[0].T)
            target.bias.copy_(source.bias[0, 0])
    return module
