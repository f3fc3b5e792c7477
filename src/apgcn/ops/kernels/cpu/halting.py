"""CPU kernels of the output of adaptive propagation, from its states and halting probabilities.

The equations are in `nn.halting`, whose functions are the reference; `test_adaptive_propagation_matches_reference` and
its neighbours in `tests/ops/test_kernels.py` compare both directions.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, kernel, to_numpy


def combine(
    z: Tensor,
    h: Tensor,
    update_mask: Tensor | None,
    nodes: Tensor | None,
    budget: float,
    results: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fill `results`: output (runs, m, channels), steps K and remainder R, both (runs, m), of the requested nodes.

    Shapes
    ------
    z : (runs, T + 1, nodes, width), width >= channels
    h : (runs, T, nodes)
    update_mask : (runs, T, nodes) or None
    nodes : (runs, m), the requested nodes; None requests all
    """
    inputs = z, h, _mask_or_ones(update_mask, h), _nodes_or_all(nodes, h)
    _combine(*to_numpy(*inputs), np.float32(budget), *to_numpy(*results))


@kernel
def _combine(z, h, update_mask, nodes, budget, output, steps, remainder):
    runs, max_steps, _ = h.shape
    channels = output.shape[2]
    no_mask = update_mask.shape[1] == 1
    for run in range(runs):
        run_z, run_h, run_mask = z[run], h[run], update_mask[run % len(update_mask)]
        run_nodes = nodes[run % len(nodes)]
        for position in range(len(run_nodes)):
            node = run_nodes[position]
            last, halting_sum = max_steps, ZERO
            for k in range(max_steps - 1):
                halting_sum += run_h[k, node]
                if not halting_sum < budget:  # NaN halts, too
                    last = k + 1
                    break
            steps[run, position] = last
            node_output, p = output[run, position], ZERO
            for c in range(channels):
                node_output[c] = ZERO
            for k in range(last):
                p = p + run_h[k, node] if k < last - 1 else ONE - p
                scale = run_mask[0 if no_mask else k, node] / np.float32(last)
                new_weight, new, old = p * scale, run_z[k + 1, node], run_z[k, node]
                old_weight = scale - new_weight
                for c in range(channels):
                    node_output[c] += new_weight * new[c] + old_weight * old[c]
            remainder[run, position] = p


def combine_backward(
    z: Tensor,
    h: Tensor,
    update_mask: Tensor | None,
    halting_weight: Tensor,
    nodes: Tensor | None,
    steps: Tensor,
    gradients: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the gradients of z and of the halting unit's logits.

    The gradient of z^k does not yet include what flows back from z^(k+1); `propagate_backward` adds it.

    Shapes
    ------
    halting_weight : (runs, channels), Q
    nodes : (runs, m), the requested nodes, distinct in each run; None stands for all
    steps : (runs, m), K of these
    gradients : of output and remainder
    returned : as z, and (runs, T, nodes)
    """
    grad_z, grad_logits = torch.zeros_like(z), torch.zeros_like(h)
    inputs = z, h, _mask_or_ones(update_mask, h), halting_weight, _nodes_or_all(nodes, h), steps, *gradients
    _combine_backward(*to_numpy(*inputs, grad_z, grad_logits))
    return grad_z, grad_logits


@kernel
def _combine_backward(
    z, h, update_mask, halting_weight, nodes, steps, grad_output, grad_remainder, grad_z, grad_logits
):  # fmt: skip
    runs, max_steps, _ = h.shape
    channels = grad_output.shape[2]
    no_mask = update_mask.shape[1] == 1
    grad_p = np.empty(max_steps, np.float32)
    for run in range(runs):
        run_z, run_h, run_mask, run_grad_z = z[run], h[run], update_mask[run % len(update_mask)], grad_z[run]
        run_nodes = nodes[run % len(nodes)]
        for position in range(len(run_nodes)):
            node = run_nodes[position]
            node_grad, node_grad_remainder = grad_output[run, position], grad_remainder[run, position]
            grad_norm = abs(node_grad_remainder)
            for c in range(channels):
                grad_norm += abs(node_grad[c])
            if grad_norm == ZERO:  # most nodes are not in the training set
                continue
            last, p = steps[run, position], ZERO
            for k in range(last):
                p = p + run_h[k, node] if k < last - 1 else ONE - p
                scale = run_mask[0 if no_mask else k, node] / np.float32(last)
                new_weight, new, old, dot = p * scale, run_z[k + 1, node], run_z[k, node], ZERO
                old_weight, grad_new, grad_old = scale - new_weight, run_grad_z[k + 1, node], run_grad_z[k, node]
                for c in range(channels):
                    grad_new[c] += new_weight * node_grad[c]
                    grad_old[c] += old_weight * node_grad[c]
                    dot += node_grad[c] * (new[c] - old[c])
                grad_p[k] = dot * scale
            grad_h = -(grad_p[last - 1] + node_grad_remainder)  # R falls as any h before step K grows
            for k in range(last - 2, -1, -1):
                grad_h += grad_p[k]  # p^k and all later p grow with h^k
                grad_logit = grad_h * run_h[k, node] * (ONE - run_h[k, node])
                grad_logits[run, k, node] = grad_logit
                grad_new = run_grad_z[k + 1, node]
                for c in range(channels):
                    grad_new[c] += grad_logit * halting_weight[run, c]


def _mask_or_ones(update_mask: Tensor | None, h: Tensor) -> Tensor:
    return h.new_ones(1, 1, h.shape[-1]) if update_mask is None else update_mask


def _nodes_or_all(nodes: Tensor | None, h: Tensor) -> Tensor:
    return torch.arange(h.shape[-1])[None] if nodes is None else nodes
