"""The halting rule of adaptive propagation: steps K, remainder R, step weights p and output, from probabilities h.

In all functions axis 0 is the step, k = 1..T (h, p) or k = 0..T (z); the axes after it are runs and nodes, in any
number, and z has the channels last. `tests/nn/test_halting.py` compares each function with a loop over nodes.

These functions are the reference of every implementation of the rule:

* `nn.propagation.AdaptivePropagation`: batched models in PyTorch, where there are no kernels;
* `ops.kernels.cpu.propagation` and `.halting`, `ops.kernels.gpu.propagation` and `.halting`: fused kernels, which
  `ops.dispatch.select_kernels` selects for float32;
* `ops.kernels.cpu.halo_propagation`: distributed training, where an adjacency has a halo exchange; without numba,
  `AdaptivePropagation` on the sharded matrices of `distributed.halo`;
* `inference.lazy_propagation` with `ops.kernels.cpu.lazy`: prediction on a CPU, for the nodes that are requested;
* `nn.apgcn.APGCNConv`: the module for (x, edge_index), which `inference.onnx` exports.

docs/halting_implementations.md has the reasons; `tests/nn/test_halting_implementations.py` compares all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def halting_steps(h: Tensor, *, epsilon: float = 0.01) -> Tensor:
    """Number of propagation steps of every node, from its halting probabilities.

        K_i = the first k with h_i^1 + ... + h_i^k >= 1 - epsilon, and T where the sum stays below

    Parameters
    ----------
    h : Tensor of shape (T, ..., nodes)
        One probability per step and node.

    Returns
    -------
    Tensor of shape (..., nodes)
        Integers from 1 to T.

    Examples
    --------
    >>> h = torch.tensor([[0.995, 0.4, 0.1], [0.5, 0.7, 0.1], [0.5, 0.7, 0.1]])
    >>> halting_steps(h).tolist()
    [1, 2, 3]
    """
    not_halted = h[:-1].detach().cumsum(0) < 1 - epsilon  # step T is the last of every node
    return 1 + not_halted.sum(0)


def remainders(h: Tensor, steps: Tensor) -> Tensor:
    """Remainder of every node: R_i = 1 - (h_i^1 + ... + h_i^(K_i - 1)).

    The gradient of the penalty flows through R, not through K, which is an integer.
    """
    return 1 - (h * (step_numbers(h) < steps)).sum(0)


def step_weights(h: Tensor, steps: Tensor, remainder: Tensor) -> Tensor:
    """Weight of each step's state against the one before.

        p_i^k = h_i^1 + ... + h_i^k   for k < K_i
        p_i^k = R_i                   for k = K_i   (and after it, where the steps are not averaged)

    Returns
    -------
    Tensor of shape (T, ..., nodes)
    """
    return torch.where(step_numbers(h) < steps, h.cumsum(0), remainder)


def combine(z: Tensor, p: Tensor, steps: Tensor) -> Tensor:
    """Output of every node: output_i = 1/K_i * sum over k = 1..K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1).

    Parameters
    ----------
    z : Tensor of shape (T + 1, ..., nodes, channels)
        z^0 to z^T.
    p : Tensor of shape (T, ..., nodes)
    steps : Tensor of shape (..., nodes)

    Returns
    -------
    Tensor of shape (..., nodes, channels)
    """
    included = (step_numbers(p) <= steps)[..., None]
    mixed = p[..., None] * z[1:] + (1 - p[..., None]) * z[:-1]
    return (included * mixed).sum(0) / steps[..., None]


def step_numbers(like: Tensor) -> Tensor:
    """k = 1..T along axis 0, with as many axes as `like`, to be compared with the steps of every node."""
    numbers = torch.arange(1, len(like) + 1, device=like.device)
    return numbers.view(-1, *[1] * (like.ndim - 1))
