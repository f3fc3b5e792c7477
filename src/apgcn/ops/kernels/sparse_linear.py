"""How is a hidden layer computed in one pass over sparse features, forward and backward?

    h = ReLU(X W + b), dropout before and after

`tests/test_kernels.py` compares both directions with the plain path.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from apgcn.ops.rng import Coins
from apgcn.ops.sparse import Pattern


class HiddenLayer(torch.autograd.Function):
    """h (runs, nodes, channels) from W (runs, features, channels) and b (runs, 1, channels).

    `values` (1 or runs, entries) are the features', which get no gradient; `feature_coins` (entries) say what is
    dropped of them, `coins` (nodes, channels) what of h, None nothing.
    """

    @staticmethod
    def forward(
        ctx,
        weight: Tensor,
        bias: Tensor,
        pattern: Pattern,
        values: Tensor,
        feature_coins: Coins | None,
        coins: Coins | None,
        kernels: ModuleType,
    ) -> Tensor:
        if feature_coins is not None and not kernels.PACKED:
            values, feature_coins = values * kernels.factors(feature_coins), None
        hidden = kernels.hidden_layer(pattern, values, feature_coins, weight, bias, coins)
        ctx.save_for_backward(values, hidden)
        ctx.pattern, ctx.kernels, ctx.feature_coins = pattern, kernels, feature_coins
        ctx.factor = 1.0 if coins is None else coins.factor
        return hidden

    @staticmethod
    def backward(ctx, gradient: Tensor):
        values, hidden = ctx.saved_tensors
        to_weights = ctx.kernels.hidden_layer_back(ctx.pattern, values, ctx.feature_coins, hidden, ctx.factor, gradient)
        return *to_weights, *[None] * 5
