"""When does a node stop? The paper's equations for K, R, p and the output, as plain functions of the probabilities h.

Everywhere, axis 0 counts the steps k = 1..T (h, p) or k = 0..T (z); the axes after it are runs and nodes, in any
number, and z has the channels last. `tests/test_halting.py` compares each with a loop over nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def halting_steps(h: Tensor, *, epsilon: float = 0.01) -> Tensor:
    """Turn per-step halting probabilities into a stopping time for every node.

        K_i = the first k with h_i^1 + ... + h_i^k >= 1 - epsilon, and T where the budget is never filled

    Parameters
    ----------
    h : Tensor of shape (T, ..., nodes)
        One probability per step and node.

    Returns
    -------
    Tensor of shape (..., nodes)
        Whole numbers from 1 to T.

    Examples
    --------
    >>> h = torch.tensor([[0.995, 0.4, 0.1], [0.5, 0.7, 0.1], [0.5, 0.7, 0.1]])
    >>> halting_steps(h).tolist()
    [1, 2, 3]
    """
    unfilled = h[:-1].detach().cumsum(0) < 1 - epsilon  # the T-th step is the last for everyone
    return 1 + unfilled.sum(0)


def remainders(h: Tensor, steps: Tensor) -> Tensor:
    """What the steps before the last leave of the budget: R_i = 1 - (h_i^1 + ... + h_i^(K_i - 1)).

    This, not K, is where the penalty's gradient enters: K is a whole number, R is not.
    """
    return 1 - (h * (step_numbers(h) < steps)).sum(0)


def step_weights(h: Tensor, steps: Tensor, remainder: Tensor) -> Tensor:
    """How much each step's new value counts against the one before.

        p_i^k = h_i^1 + ... + h_i^k   for k < K_i
        p_i^k = R_i                   for k = K_i   (and after it, where nothing is counted any more)

    Returns
    -------
    Tensor of shape (T, ..., nodes)
    """
    return torch.where(step_numbers(h) < steps, h.cumsum(0), remainder)


def combine(z: Tensor, p: Tensor, steps: Tensor) -> Tensor:
    """The output: output_i = 1/K_i * sum over k = 1..K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1).

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
    counted = (step_numbers(p) <= steps)[..., None]
    mixed = p[..., None] * z[1:] + (1 - p[..., None]) * z[:-1]
    return (counted * mixed).sum(0) / steps[..., None]


def step_numbers(like: Tensor) -> Tensor:
    """k = 1..T along axis 0, ready to be compared with the steps of every node."""
    numbers = torch.arange(1, len(like) + 1, device=like.device)
    return numbers.view(-1, *[1] * (like.ndim - 1))
