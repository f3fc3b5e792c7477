"""How is a model for one's own graph trained? Some initialisations of it, as one pack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.calibration import temperature_for
from apgcn.inference.evaluation import judged
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.base import ModelConfig
from apgcn.training.batching import train
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run

NAME = "graph"  # for random numbers: what somebody calls the graph must not change what it learns


def fit(
    graph: Graph,
    split: Split,
    model: ModelConfig,
    training: TrainingConfig,
    *,
    initialisations: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Any = None,
) -> TrainedModel:
    """Train initialisations of a model as one pack; the stopping nodes also say how certain it may be."""
    graph = replace(graph, name=NAME)
    runs = [Run(split, init=seed + number, dataset=graph.name) for number in range(initialisations)]
    results = train(graph, runs, model, training, device=device, progress=progress)
    finite = [result for result in results if result.best_epoch > 0]
    if not finite:
        raise InvalidInput("the loss was never finite; make learning_rate or l2 smaller, or scale the features.")
    fitted = TrainedModel(
        model=model,
        training=training,
        weights={name: torch.cat([result.weights[name] for result in finite]) for name in finite[0].weights},
        class_names=graph.class_names,
        features=graph.num_features,
        split=split,
        temperature=temperature_for(
            np.stack([result.logits[split.stopping] for result in finite]), graph.labels[split.stopping]
        ),
        notes={
            "epochs": [result.epochs for result in finite],
            "best_epoch": [result.best_epoch for result in finite],
            "diverged": len(results) - len(finite),
        },
    )
    fitted.notes.update(judged(fitted.predict(graph, device=device), graph, split))
    return fitted
