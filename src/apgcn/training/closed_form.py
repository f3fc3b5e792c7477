"""How does a model without weights answer? At once, from the graph and the training nodes' labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.training.loss import Nodes
from apgcn.training.runs import Evaluation, HistoryLog, Run, RunResult


@torch.no_grad()
def solved(graph: DeviceGraph, runs: Sequence[Run], model: ModelConfig) -> list[RunResult]:
    """The runs' answers, told as if they were found in one epoch. The stopping nodes have no say."""
    train = Nodes.of([run.split.train for run in runs], graph.labels, what="training")
    stop = Nodes.of([run.split.stopping for run in runs], graph.labels, what="stopping")
    outcome = model.solve(graph, train.index)
    log = HistoryLog(len(runs))
    found = Evaluation(
        training_loss=train.cross_entropy(outcome.output),
        stopping_loss=stop.cross_entropy(outcome.output),
        stopping_accuracy=stop.accuracy(outcome.output),
        steps_mean=outcome.steps.float().mean(1),
    )
    log.append(torch.arange(len(runs)), found)
    logits, steps, remainder = (value.cpu().numpy() for value in outcome)
    return [
        RunResult(
            run=run,
            logits=logits[number],
            steps=steps[number],
            remainder=remainder[number],
            weights={},
            history=history,
            best_epoch=1,
            labels=graph.labels.cpu().numpy(),
        )
        for number, (run, history) in enumerate(zip(runs, log.of_each_run([1] * len(runs)), strict=True))
    ]
