"""How is a hidden layer computed in one pass over sparse features, forward and backward?

    h = ReLU(X W + b), dropout before and after

`tests/test_kernels.py` compares both directions with the plain path.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


class SparseLinear(torch.autograd.Function):
    """h (runs, nodes, channels) from W (runs, features, channels) and b (runs, 1, channels).

    `values` (1 or runs, entries) are the features', which get no gradient; `feature_mask` (entries) say what is
    dropped of them, `mask` (nodes, channels) what of h, None nothing.
    """

    @staticmethod
    def forward(
        ctx,
        weight: Tensor,
        bias: Tensor,
        structure: CSRStructure,
        values: Tensor,
        feature_mask: PackedMask | None,
        mask: PackedMask | None,
        kernels: ModuleType,
    ) -> Tensor:
        if feature_mask is not None and not kernels.PACKED:
            values, feature_mask = values * kernels.factors(feature_mask), None
        hidden = kernels.sparse_linear(structure, values, feature_mask, weight, bias, mask)
        ctx.save_for_backward(values, hidden)
        ctx.structure, ctx.kernels, ctx.feature_mask = structure, kernels, feature_mask
        ctx.factor = 1.0 if mask is None else mask.factor
        return hidden

    @staticmethod
    def backward(ctx, gradient: Tensor):
        values, hidden = ctx.saved_tensors
        to_weights = ctx.kernels.sparse_linear_backward(
            ctx.structure, values, ctx.feature_mask, hidden, ctx.factor, gradient
        )
        return *to_weights, *[None] * 5
