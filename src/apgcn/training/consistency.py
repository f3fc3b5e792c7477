"""Consistency training: passes with independent dropout should predict the same, and with confidence, at every node.

GRAND (Feng et al., Graph Random Neural Networks for Semi-Supervised Learning, NeurIPS 2020); the sharpened target and
the warm-up are those of MixMatch (Berthelot et al., NeurIPS 2019). With S passes, p_s of (nodes, classes):

    mean    = 1/S * (p_1 + ... + p_S)
    target  = mean^(1 / temperature), made a distribution, without gradient
    loss   += weight(epoch) * mean over confident nodes and over s of |p_s - target|^2

A node is confident if the largest probability of `mean` is at least `confidence`. The passes of a run are computed at
once, as if they were runs: each has a random stream of its own, and the gradients of their weights are added up. The
first pass draws the masks that the run draws without consistency training.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from apgcn.models.base import BatchedModel
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import axis_sums, run_sums
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.config import TrainingConfig
from apgcn.training.loss import NodeSet, l2_regularization, supervised_loss


def consistent_training_loss(
    model: BatchedModel,
    graph: DeviceGraph,
    rng: RandomStream,
    train_nodes: NodeSet,
    config: TrainingConfig,
    epoch: Tensor,
) -> Tensor:
    """The loss of an epoch with consistency training, one value per run: `training_loss`, its mean over the passes.

    Parameters
    ----------
    epoch : Tensor of shape ()
        Counted from 1.
    """
    passes = config.consistency_passes
    output = forward_passes(model, graph, rng, passes=passes)
    nodes = NodeSet(*(tensor.repeat_interleave(passes, 0) for tensor in (train_nodes.index, train_nodes.labels)))
    supervised = _mean_over_passes(supervised_loss(model, output, nodes), passes)
    weight = config.consistency * (epoch / config.consistency_warmup).clamp(max=1.0)
    distance = consistency_distance(
        output.output.unflatten(0, (-1, passes)), temperature=config.temperature, confidence=config.confidence
    )
    return supervised + l2_regularization(model, l2=config.l2) + weight * distance


def forward_passes(model: BatchedModel, graph: DeviceGraph, rng: RandomStream, *, passes: int) -> PropagationOutput:
    """The output of all nodes in several passes with independent dropout, (runs * passes, nodes, ...).

    The passes of a run follow one another.
    """
    weights = {name: _RepeatRuns.apply(weight, passes) for name, weight in model.named_parameters()}
    return functional_call(model, weights, (graph, rng.repeat(passes)))


def consistency_distance(logits: Tensor, *, temperature: float, confidence: float) -> Tensor:
    """The mean over confident nodes and over passes of |p_s - target|^2, one value per run; 0 without such nodes.

    Shapes
    ------
    logits : (runs, passes, nodes, classes)
    returned : (runs,)
    """
    p = logits.softmax(-1)
    mean = axis_sums(p.detach(), 1) / p.shape[1]
    confident = (mean.amax(-1) >= confidence).to(p)  # (runs, nodes)
    distance = axis_sums((p - sharpen(mean, temperature)[:, None]).square().sum(-1), 1) / p.shape[1]
    return run_sums(distance * confident) / confident.sum(1).clamp(min=1)


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """Distributions p (..., classes) to the power of 1 / temperature, made distributions again.

    >>> sharpen(torch.tensor([0.8, 0.2]), 0.5)
    tensor([0.9412, 0.0588])
    """
    return (p.clamp(min=torch.finfo(p.dtype).tiny).log() / temperature).softmax(-1)


def _mean_over_passes(values: Tensor, passes: int) -> Tensor:
    """The mean over the passes of each run: (runs * passes,) to (runs,)."""
    return run_sums(values.view(-1, passes)) / passes


class _RepeatRuns(torch.autograd.Function):
    """The weights of each run once for each of its passes; the gradients are added up in the order of the passes."""

    @staticmethod
    def forward(ctx, weight: Tensor, passes: int) -> Tensor:
        ctx.passes = passes
        return weight.repeat_interleave(passes, 0)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        grad, *others = grad_output.unflatten(0, (-1, ctx.passes)).unbind(1)
        for other in others:
            grad = grad + other
        return grad, None
