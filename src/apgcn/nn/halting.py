"""The halting rule of adaptive propagation: steps K, remainder R, step weights p and output, from probabilities h.

In all functions axis 0 is the step, k = 1..T (h, p) or k = 0..T (z); the axes after it are runs and nodes, in any
number, and z has the channels last. `tests/nn/test_halting.py` compares each function with a loop over nodes.

A node takes at least `min_steps` steps. The paper's value is 1, the default of all functions. With a larger one the sum
of halting probabilities may exceed 1 before a node may halt; it then counts as 1. With 0 a node may halt at its initial
prediction z^0: h has a row for k = 0, too, and the output is another one. The paper's is a mean over K steps, undefined
for K = 0, in which h moves the weight of a state by a fraction 1/K at most. With `min_steps=0` it is the expected state
of a node that halts at step k with probability h^k (Graves, Adaptive Computation Time, 2016):

    output_i = h_i^0 z_i^0 + ... + h_i^(K_i - 1) z_i^(K_i - 1) + R_i z_i^(K_i)

which is z_i^0 for K_i = 0, approaches it as h_i^0 grows, and has the gradient z_i^k - z_i^(K_i) with respect to h_i^k.
docs/halting.md has the reasons.

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

from apgcn._utils.validation import check_int
from apgcn.errors import InvalidInput

INITIAL_SHIFT = 2.0  # by which the logit of h^0 begins below those of h^1, ..., h^T, see docs/halting.md


def halting_steps(h: Tensor, *, epsilon: float = 0.01, min_steps: int = 1) -> Tensor:
    """Number of propagation steps of every node, from its halting probabilities.

        K_i = the first k >= min_steps with h_i^first + ... + h_i^k >= 1 - epsilon, and T where the sum stays below

    Parameters
    ----------
    h : Tensor of shape (T + 1 - first, ..., nodes)
        One probability per node and step k = first..T, with first = `first_step(min_steps)`.

    Returns
    -------
    Tensor of shape (..., nodes)
        Integers from min_steps to T.

    Examples
    --------
    >>> h = torch.tensor([[0.995, 0.4, 0.1], [0.5, 0.7, 0.1], [0.5, 0.7, 0.1]])
    >>> halting_steps(h).tolist()
    [1, 2, 3]
    >>> halting_steps(h, min_steps=0).tolist()  # the rows are h^0, h^1 and h^2
    [0, 1, 2]
    >>> halting_steps(h, min_steps=2).tolist()
    [2, 2, 3]
    """
    first = first_step(min_steps)
    not_halted = h[:-1].detach().cumsum(0) < 1 - epsilon  # step T is the last of every node
    if min_steps > 1:
        not_halted = not_halted | (step_numbers(h[:-1], first=first) < min_steps)
    return first + not_halted.sum(0)


def remainders(h: Tensor, steps: Tensor, *, min_steps: int = 1) -> Tensor:
    """Remainder of every node: R_i = 1 - (h_i^first + ... + h_i^(K_i - 1)), at least 0.

    The gradient of the penalty flows through R, not through K, which is an integer.
    """
    remainder = 1 - (h * (step_numbers(h, first=first_step(min_steps)) < steps)).sum(0)
    return remainder.clamp(min=0) if min_steps > 1 else remainder


def step_weights(h: Tensor, steps: Tensor, remainder: Tensor, *, min_steps: int = 1) -> Tensor:
    """Weight of each step's state against the one before, for k = 1..T.

    With min_steps >= 1:

        p_i^k = h_i^1 + ... + h_i^k, at most 1    for k < K_i
        p_i^k = R_i                               for k = K_i   (and after it, where the steps are not combined)

    With min_steps = 0, the part of the budget that is left after step k - 1:

        p_i^k = 1 - (h_i^0 + ... + h_i^(k-1))     for k <= K_i, so that p_i^k = R_i for k = K_i

    Returns
    -------
    Tensor of shape (T, ..., nodes)
    """
    if min_steps == 0:
        return 1 - h[:-1].cumsum(0)
    cumulative = h.cumsum(0)
    if min_steps > 1:
        cumulative = cumulative.clamp(max=1)
    return torch.where(step_numbers(h) < steps, cumulative, remainder)


def combine(z: Tensor, p: Tensor, steps: Tensor, *, min_steps: int = 1) -> Tensor:
    """Output of every node.

    With min_steps >= 1, the paper's mean over the steps:

        output_i = 1/K_i * sum over k = 1..K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1)

    With min_steps = 0, z^0 and the updates of all steps, each times the part of the budget that is left before it:

        output_i = z_i^0 + sum over k = 1..K_i of p_i^k (z_i^k - z_i^(k-1))

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
    if min_steps == 0:
        return z[0] + (included * p[..., None] * (z[1:] - z[:-1])).sum(0)
    mixed = p[..., None] * z[1:] + (1 - p[..., None]) * z[:-1]
    return (included * mixed).sum(0) / steps[..., None]


def check_steps(min_steps: int, max_steps: int) -> None:
    """Raise InvalidInput unless max_steps >= 1 and 0 <= min_steps <= max_steps."""
    check_int("max_steps", max_steps)
    check_int("min_steps", min_steps, minimum=0)
    if min_steps > max_steps:
        raise InvalidInput(f"min_steps must be at most max_steps, {max_steps}, got {min_steps}.")


def first_step(min_steps: int) -> int:
    """The first step whose halting probability counts: 0 if a node may halt there, else 1."""
    return min(min_steps, 1)


def step_numbers(like: Tensor, *, first: int = 1) -> Tensor:
    """The numbers of the steps along axis 0, from the first, with as many axes as `like`."""
    numbers = torch.arange(first, len(like) + first, device=like.device)
    return numbers.view(-1, *[1] * (like.ndim - 1))
