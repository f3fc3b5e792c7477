"""How does a GPU compute a hidden layer from sparse features? As a product that ends with bias, ReLU and dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from apgcn.ops.kernels.gpu.spmm import spmm
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


def sparse_linear(
    structure: CSRStructure,
    values: Tensor,
    feature_mask: PackedMask | None,
    weight: Tensor,
    bias: Tensor,
    mask: PackedMask | None,
) -> Tensor:
    """ReLU(X W + b) after dropout of X by `feature_mask` and of the result by `mask`."""
    return spmm(structure, values, feature_mask, weight, transposed=False, bias=bias, hidden_mask=mask)


def sparse_linear_backward(
    structure: CSRStructure,
    values: Tensor,
    feature_mask: PackedMask | None,
    hidden: Tensor,
    factor: float,
    gradient: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of W and b; `factor` is what dropout multiplied the hidden values with that it kept."""
    said = torch.where(hidden > 0, gradient * factor, 0)
    return spmm(structure, values, feature_mask, said, transposed=True), said.sum(1, keepdim=True)
