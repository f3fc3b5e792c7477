"""GPU kernels of the output of adaptive propagation, from its states and halting probabilities; one launch each.

The equations are in `nn.halting`, whose functions are the reference; `test_adaptive_propagation_matches_reference` and
its neighbours in `tests/ops/test_kernels.py` compare both directions.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.kernels.gpu.dense import align

BLOCK = 256  # values, nodes times channels, per program


def combine(
    z: Tensor,
    h: Tensor,
    update_mask: Tensor | None,
    nodes: Tensor | None,
    budget: float,
    results: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fill `results` with output, steps K and remainder R, as `kernels.cpu.halting.combine`.

    z and h are those of the requested nodes alone, so `nodes` is None.
    """
    assert nodes is None
    runs, _, num_nodes, width = z.shape
    _combine[triton.cdiv(num_nodes, max(1, BLOCK // width)), runs](
        z, h, h if update_mask is None else align(update_mask), budget, *results, num_nodes, results[0].shape[2],
        h.shape[1], HAS_MASK=update_mask is not None, NODES=max(1, BLOCK // width), CHANNELS=width,
    )  # fmt: skip


@triton.jit
def _combine(
    z, h, update_mask, budget, output, steps, remainder, num_nodes, channels, max_steps,
    HAS_MASK: tl.constexpr, NODES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    valid_node = node < num_nodes
    h += run * max_steps * num_nodes
    update_mask += run * max_steps * num_nodes
    z += run * (max_steps + 1) * num_nodes * CHANNELS
    last = tl.full((NODES,), 1, tl.int32)
    halting_sum = tl.zeros((NODES,), tl.float32)
    for k in range(0, max_steps - 1):
        halting_sum += tl.load(h + k * num_nodes + node, mask=valid_node, other=1.0)
        last += (halting_sum < budget).to(tl.int32)
    channel = tl.arange(0, CHANNELS)
    valid = valid_node[:, None] & (channel < channels)[None, :]
    z_offset = node[:, None] * CHANNELS + channel[None, :]
    output_offset = node[:, None] * channels + channel[None, :]
    state = z
    old = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
    total = tl.zeros((NODES, CHANNELS), tl.float32)
    p = tl.zeros((NODES,), tl.float32)
    node_remainder = tl.zeros((NODES,), tl.float32)
    for k in range(0, max_steps):
        is_last = k == last - 1
        p = tl.where(is_last, 1.0 - p, p + tl.load(h + k * num_nodes + node, mask=valid_node, other=0.0))
        node_remainder = tl.where(is_last, p, node_remainder)
        scale = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if HAS_MASK:
            scale *= tl.load(update_mask + k * num_nodes + node, mask=valid_node, other=0.0)
        state += num_nodes * CHANNELS
        new = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
        new_weight = p * scale
        total += new_weight[:, None] * new + (scale - new_weight)[:, None] * old
        old = new
    tl.store(output + run * num_nodes * channels + output_offset, total, mask=valid)
    tl.store(steps + run * num_nodes + node, last.to(tl.int64), mask=valid_node)
    tl.store(remainder + run * num_nodes + node, node_remainder, mask=valid_node)


def combine_backward(
    z: Tensor,
    h: Tensor,
    update_mask: Tensor | None,
    halting_weight: Tensor,
    nodes: Tensor | None,
    steps: Tensor,
    gradients: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the gradients of z and of the halting unit's logits; see `kernels.cpu.halting.combine_backward`."""
    assert nodes is None
    runs, _, num_nodes, width = z.shape
    grad_z, grad_logits = torch.empty_like(z), torch.empty_like(h)
    _combine_backward[triton.cdiv(num_nodes, max(1, BLOCK // width)), runs](
        z, h, h if update_mask is None else align(update_mask), halting_weight, steps,
        *(align(gradient) for gradient in gradients), grad_z, grad_logits, num_nodes, halting_weight.shape[-1],
        h.shape[1], HAS_MASK=update_mask is not None, NODES=max(1, BLOCK // width), CHANNELS=width,
    )  # fmt: skip
    return grad_z, grad_logits


@triton.jit
def _combine_backward(
    z, h, update_mask, halting_weight, steps, grad_output, grad_remainder, grad_z, grad_logits, num_nodes, channels,
    max_steps, HAS_MASK: tl.constexpr, NODES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    valid_node = node < num_nodes
    h += run * max_steps * num_nodes
    grad_logits += run * max_steps * num_nodes
    update_mask += run * max_steps * num_nodes
    z += run * (max_steps + 1) * num_nodes * CHANNELS
    grad_z += run * (max_steps + 1) * num_nodes * CHANNELS
    channel = tl.arange(0, CHANNELS)
    valid_channel = channel < channels
    valid = valid_node[:, None] & valid_channel[None, :]
    z_offset = node[:, None] * CHANNELS + channel[None, :]
    output_offset = node[:, None] * channels + channel[None, :]
    gradient = tl.load(grad_output + run * num_nodes * channels + output_offset, mask=valid, other=0.0)
    weight = tl.load(halting_weight + run * channels + channel, mask=valid_channel, other=0.0)
    last = tl.load(steps + run * num_nodes + node, mask=valid_node, other=1).to(tl.int32)
    # R falls as any h before step K grows
    grad_h = -tl.load(grad_remainder + run * num_nodes + node, mask=valid_node, other=0.0)
    state = z
    old = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
    for k in range(0, max_steps):  # the sum over p^1, ..., p^K, from which each step then removes its own part
        scale = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if HAS_MASK:
            scale *= tl.load(update_mask + k * num_nodes + node, mask=valid_node, other=0.0)
        state += num_nodes * CHANNELS
        new = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
        grad_p = scale * tl.sum(gradient * (new - old), axis=1)
        grad_h += tl.where(k == last - 1, -grad_p, grad_p)
        old = new
    state = z
    old = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
    p = tl.zeros((NODES,), tl.float32)
    grad_new = tl.zeros((NODES, CHANNELS), tl.float32)  # the gradient of z^k as the new state of step k
    for k in range(0, max_steps):
        is_last = k == last - 1
        step_h = tl.load(h + k * num_nodes + node, mask=valid_node, other=0.0)
        p = tl.where(is_last, 1.0 - p, p + step_h)
        scale = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if HAS_MASK:
            scale *= tl.load(update_mask + k * num_nodes + node, mask=valid_node, other=0.0)
        new_weight = p * scale
        grad_logit = tl.where(k < last - 1, grad_h * step_h * (1.0 - step_h), 0.0)
        tl.store(grad_logits + k * num_nodes + node, grad_logit, mask=valid_node)
        state += num_nodes * CHANNELS
        new = tl.load(state + z_offset, mask=valid_node[:, None], other=0.0)
        grad_h -= scale * tl.sum(gradient * (new - old), axis=1)
        tl.store(grad_z + z_offset, grad_new + (scale - new_weight)[:, None] * gradient, mask=valid_node[:, None])
        grad_z += num_nodes * CHANNELS
        grad_new = new_weight[:, None] * gradient + grad_logit[:, None] * weight[None, :]
        old = new
    tl.store(grad_z + z_offset, grad_new, mask=valid_node[:, None])
