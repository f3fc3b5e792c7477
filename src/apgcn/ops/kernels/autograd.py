"""Autograd functions over the fused kernels of `kernels.cpu` and `kernels.gpu`.

* `FusedAdaptivePropagation`: adaptive propagation. Its reference is the PyTorch path of
  `nn.propagation.AdaptivePropagation`; `test_adaptive_propagation_matches_reference` and its neighbours in
  `tests/ops/test_kernels.py` compare the two, forward and backward.
* `FusedFixedPropagation`: a fixed number of steps in the same kernels. Its reference is the PyTorch path of
  `nn.propagation.FixedPropagation`; `test_fixed_propagation_matches_reference` compares the two.
* `FusedPropagationStates`: the states of a fixed number of steps in the same kernels. Its reference is
  `nn.propagation.propagate`; `test_propagation_states_match_reference` compares the two.
* `FusedMLP` on a CPU, and `SparseLinear`, its first layer over sparse features, on a GPU. Their reference is the
  PyTorch path of `nn.layers.MLP`; `test_mlp_over_sparse_features_matches_reference` and its neighbours compare them.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from apgcn.ops.dense import column_sums, run_sums
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


class PropagationMatrices(NamedTuple):
    """The propagation matrices A_1, ..., A_T of one forward pass, as the inputs of a fused kernel.

    A_k = D_k^-1/2 W_k D_k^-1/2, with W_k the edge weights that edge dropout leaves at step k, and one step is

        z^k = adjacency_weight A_k z^(k-1) + z0_weight z^0

    The kernels compute W_k and D_k themselves.

    Attributes
    ----------
    structure : CSRStructure
    weights : Tensor of shape (nnz,)
        Edge weights before dropout.
    keep_self_loops : bool
        Whether the diagonal is never dropped.
    mask : PackedMask of shape (runs, steps, nnz) or None
        Edge dropout; None drops nothing.
    renormalize : bool
        Whether D_k holds the row sums of W_k; otherwise D_k = I.
    adjacency_weight, z0_weight : float
    unit_weights : bool
        Whether all weights are known to be 1.
    halo : HaloExchange or None
        In distributed training: how the rows of halo nodes arrive from other processes, see `distributed`.
    """

    structure: CSRStructure
    weights: Tensor
    keep_self_loops: bool
    mask: PackedMask | None
    renormalize: bool
    adjacency_weight: float = 1.0
    z0_weight: float = 0.0
    unit_weights: bool = False
    halo: Any = None

    @property
    def mask_scale(self) -> float:
        """Factor by which edge dropout multiplies the weights that it keeps."""
        return 1.0 if self.mask is None else self.mask.scale


class HaltingParameters(NamedTuple):
    """Parameters of the halting rule.

    Attributes
    ----------
    max_steps : int
        T, the largest number of steps.
    epsilon : float
        A node halts when its halting probabilities sum to at least 1 - epsilon.
    freeze_halted : bool
        Whether a node keeps its state after it has halted, z^k = z^K for k > K.
    """

    max_steps: int
    epsilon: float
    freeze_halted: bool = False

    @property
    def budget(self) -> float:
        """1 - epsilon, the sum of halting probabilities at which a node halts."""
        return 1 - self.epsilon


class FusedAdaptivePropagation(torch.autograd.Function):
    """Adaptive propagation in a few fused kernels.

        z^k = adjacency_weight A_k z^(k-1) + z0_weight z^0,    h^k = sigmoid(z^k Q + q)

    then K, R and the output as in `nn.halting`; with `freeze_halted`, z^k = z^K for k > K. Returns the output
    (runs, m, channels), the steps K and the remainder R, both (runs, m), of the requested nodes or of all.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    weight : (runs, channels, 1), Q of the halting unit
    bias : (runs, 1, 1), q of the halting unit
    update_mask : (runs, T, nodes), dropout of each node's update at each step; None is 1
    nodes : (runs, m) or None
        The requested nodes, distinct in each run; propagation ends when all of them have halted.
    """

    @staticmethod
    def forward(
        ctx,
        z0: Tensor,
        weight: Tensor,
        bias: Tensor,
        update_mask: Tensor | None,
        nodes: Tensor | None,
        matrices: PropagationMatrices,
        halting: HaltingParameters,
        kernels: ModuleType,
    ):
        halting_weight = weight.squeeze(-1).contiguous()
        z, h, saved = kernels.propagate(matrices, z0, halting_weight, bias.flatten(), nodes, halting)
        selected = nodes
        if nodes is not None and matrices.halo is None:
            selected = None  # z and h are those of the requested nodes alone
            if update_mask is not None:
                update_mask = update_mask.gather(2, nodes[:, None].expand(-1, halting.max_steps, -1))
        size = h.shape[0], h.shape[2] if selected is None else selected.shape[1]
        steps = torch.empty(size, dtype=torch.int64, device=z0.device)
        results = z0.new_empty(*size, z0.shape[2]), steps, z0.new_empty(size)
        kernels.combine(z, h, update_mask, selected, halting.budget, results)
        ctx.save_for_backward(z, h, update_mask, halting_weight, steps, selected, *saved)
        ctx.matrices, ctx.kernels = matrices, kernels
        ctx.mark_non_differentiable(results[1])
        return results

    @staticmethod
    def backward(ctx, grad_output: Tensor, _: Tensor, grad_remainder: Tensor):
        z, h, update_mask, halting_weight, steps, selected, *saved = ctx.saved_tensors
        channels = grad_output.shape[-1]
        gradients = grad_output.contiguous(), grad_remainder.contiguous()
        grad_z, grad_logits = ctx.kernels.combine_backward(
            z, h, update_mask, halting_weight, selected, steps, gradients
        )
        grad_weight = grad_bias = None
        if ctx.needs_input_grad[1]:  # the halting unit is updated on some epochs only
            grad_weight = column_sums(z[:, 1:].flatten(1, 2), grad_logits.flatten(1))[:, :channels, None]
            grad_bias = run_sums(grad_logits)[:, None, None]
        grad_z0 = ctx.kernels.propagate_backward(ctx.matrices, tuple(saved), grad_z, channels=channels)
        return grad_z0, grad_weight, grad_bias, *[None] * 5


class FusedFixedPropagation(torch.autograd.Function):
    """Fixed propagation in the kernels of adaptive propagation: no node halts.

    Returns z^T or, with `state_weights` w, the sum over k = 0..T of w_i^k z_i^k.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    state_weights : (runs, T + 1, nodes) or None
    nodes : (runs, m) or None
        The requested nodes, distinct in each run; None requests all.
    returned : (runs, m, channels)
    """

    @staticmethod
    def forward(
        ctx,
        z0: Tensor,
        state_weights: Tensor | None,
        nodes: Tensor | None,
        matrices: PropagationMatrices,
        steps: int,
        kernels: ModuleType,
    ):
        runs, _, channels = z0.shape
        never = HaltingParameters(steps, epsilon=-math.inf)
        z, h, saved = kernels.propagate(matrices, z0, z0.new_zeros(runs, channels), z0.new_zeros(runs), nodes, never)
        in_kernel = matrices.halo is None
        ctx.selected = None if in_kernel else nodes
        if in_kernel and state_weights is not None and nodes is not None:
            state_weights = state_weights.gather(2, nodes[:, None].expand(-1, steps + 1, -1))
        ctx.save_for_backward(state_weights, *saved)
        ctx.matrices, ctx.kernels, ctx.shape = matrices, kernels, z.shape
        # States that are not finite have the halting probability NaN, at which the kernels stop.
        output = z[:, steps, :, :channels] + 0 * h.sum(1)[..., None]
        if state_weights is not None:
            output = output * state_weights[:, steps, :, None]
            for k in range(steps):
                output = output + z[:, k, :, :channels] * state_weights[:, k, :, None]
        return output if ctx.selected is None else output.gather(1, _row_index(ctx.selected, channels))

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        state_weights, *saved = ctx.saved_tensors
        channels = grad_output.shape[-1]
        grad_z = grad_output.new_zeros(ctx.shape)
        states = grad_z[..., :channels]
        if ctx.selected is None:
            states[:, -1] = grad_output
        else:
            states[:, -1].scatter_(1, _row_index(ctx.selected, channels), grad_output)
        if state_weights is not None:
            states.copy_(states[:, -1:] * state_weights[..., None])
        grad_z0 = ctx.kernels.propagate_backward(ctx.matrices, tuple(saved), grad_z, channels=channels)
        return grad_z0, *[None] * 5


class FusedPropagationStates(torch.autograd.Function):
    """The states z^0, ..., z^T of a fixed number of steps in the kernels of adaptive propagation: no node halts.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    nodes : (runs, m) or None
        The requested nodes, distinct in each run; None requests all.
    returned : (T + 1, runs, m, channels)
    """

    @staticmethod
    def forward(
        ctx, z0: Tensor, nodes: Tensor | None, matrices: PropagationMatrices, steps: int, kernels: ModuleType
    ) -> Tensor:
        runs, _, channels = z0.shape
        never = HaltingParameters(steps, epsilon=-math.inf)
        z, _, saved = kernels.propagate(matrices, z0, z0.new_zeros(runs, channels), z0.new_zeros(runs), nodes, never)
        in_kernel = matrices.halo is None
        ctx.selected = None if in_kernel else nodes
        ctx.save_for_backward(*saved)
        ctx.matrices, ctx.kernels, ctx.shape = matrices, kernels, z.shape
        states = z[..., :channels].transpose(0, 1)
        return (
            states.contiguous() if ctx.selected is None else states.gather(2, _state_index(ctx.selected, z, channels))
        )

    @staticmethod
    def backward(ctx, grad_states: Tensor):
        channels = grad_states.shape[-1]
        grad_z = grad_states.new_zeros(ctx.shape)
        states = grad_z[..., :channels].transpose(0, 1)
        if ctx.selected is None:
            states.copy_(grad_states)
        else:
            states.scatter_(2, _state_index(ctx.selected, grad_z, channels), grad_states)
        grad_z0 = ctx.kernels.propagate_backward(ctx.matrices, ctx.saved_tensors, grad_z, channels=channels)
        return grad_z0, *[None] * 4


def _state_index(nodes: Tensor, z: Tensor, channels: int) -> Tensor:
    """The index of rows of (T + 1, runs, nodes, channels) for `gather` and `scatter`."""
    return nodes[None, ..., None].expand(z.shape[1], z.shape[0], -1, channels)


def _row_index(nodes: Tensor, channels: int) -> Tensor:
    """The index of rows of (runs, nodes, channels) for `gather` and `scatter`."""
    return nodes[..., None].expand(-1, -1, channels)


class SparseLinear(torch.autograd.Function):
    """ReLU(X W + b) over sparse features X, with dropout before and after, in one kernel per direction.

    Returns the hidden activations (runs, nodes, channels). The features get no gradient.

    Shapes
    ------
    weight : (runs, features, channels), W
    bias : (runs, 1, channels), b
    x : SparseMatrix of shape (nodes, features), with its dropout
    mask : PackedMask of shape (runs, nodes, channels), dropout of the activations; None drops nothing
    """

    @staticmethod
    def forward(ctx, weight: Tensor, bias: Tensor, x: Any, mask: PackedMask | None, kernels: ModuleType) -> Tensor:
        values = torch.atleast_2d(x.values)
        ctx.binary = None if x.binary_form is None else kernels.binary_matrix(x.binary_form, x.mask)
        if ctx.binary is not None:
            hidden = kernels.binary_linear(ctx.binary, weight, bias, mask)
        else:
            hidden = kernels.sparse_linear(x.structure, values, x.mask, weight, bias, mask)
        ctx.save_for_backward(values, hidden)
        ctx.structure, ctx.kernels, ctx.feature_mask = x.structure, kernels, x.mask
        ctx.mask_scale = 1.0 if mask is None else mask.scale
        return hidden

    @staticmethod
    def backward(ctx, grad_hidden: Tensor):
        values, hidden = ctx.saved_tensors
        if ctx.binary is not None:
            gradients = ctx.kernels.binary_linear_backward(ctx.binary, hidden, ctx.mask_scale, grad_hidden)
        else:
            gradients = ctx.kernels.sparse_linear_backward(
                ctx.structure, values, ctx.feature_mask, hidden, ctx.mask_scale, grad_hidden
            )
        return *gradients, *[None] * 3


class FusedMLP(torch.autograd.Function):
    """ReLU(X W_1 + b_1) W_2 + b_2, with dropout before each layer, in one kernel forward and two backward.

    Returns (runs, nodes, channels). The features get no gradient.

    Shapes
    ------
    w_1, b_1, w_2, b_2 : (runs, features, hidden), (runs, 1, hidden), (runs, hidden, channels), (runs, 1, channels)
    x : SparseMatrix or Tensor of shape (nodes, features)
    feature_mask : PackedMask of shape (runs, nnz) or (runs, nodes, features), dropout of the features, or None
    mask : PackedMask of shape (runs, nodes, hidden), dropout of the activations, or None
    """

    @staticmethod
    def forward(
        ctx,
        w_1: Tensor,
        b_1: Tensor,
        w_2: Tensor,
        b_2: Tensor,
        x: Any,
        feature_mask: PackedMask | None,
        mask: PackedMask | None,
        kernels: ModuleType,
    ) -> Tensor:
        keep_hidden = any(ctx.needs_input_grad)
        z, hidden, values = kernels.mlp(x, feature_mask, mask, (w_1, b_1, w_2, b_2), keep_hidden=keep_hidden)
        ctx.save_for_backward(values, hidden, w_2)
        ctx.x, ctx.feature_mask, ctx.kernels = x, feature_mask, kernels
        ctx.mask_scale = 1.0 if mask is None else mask.scale
        return z

    @staticmethod
    def backward(ctx, grad_z: Tensor):
        values, hidden, w_2 = ctx.saved_tensors
        gradients = ctx.kernels.mlp_backward(
            ctx.x, ctx.feature_mask, ctx.mask_scale, values, hidden, w_2, grad_z.contiguous()
        )
        return *gradients, *[None] * 4
