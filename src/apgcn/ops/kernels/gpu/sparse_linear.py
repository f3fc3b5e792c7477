"""How does a GPU compute a hidden layer from sparse features? As a product that ends with bias, ReLU and dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from apgcn.ops.kernels.gpu.spmm import multiply
from apgcn.ops.rng import Coins
from apgcn.ops.sparse import Pattern


def hidden_layer(
    pattern: Pattern, values: Tensor, feature_coins: Coins | None, weight: Tensor, bias: Tensor, coins: Coins | None
) -> Tensor:
    """ReLU(X W + b) after dropout of X by `feature_coins` and of the result by `coins`."""
    return multiply(pattern, values, feature_coins, weight, turned=False, bias=bias, hidden_coins=coins)


def hidden_layer_back(
    pattern: Pattern, values: Tensor, feature_coins: Coins | None, hidden: Tensor, factor: float, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of W and b; `factor` is what dropout multiplied the hidden values with that it kept."""
    said = torch.where(hidden > 0, gradient * factor, 0)
    return multiply(pattern, values, feature_coins, said, turned=True), said.sum(1, keepdim=True)
