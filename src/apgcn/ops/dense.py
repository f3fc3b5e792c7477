"""Dense products and sums over the run axis, whose bits do not depend on the number of runs.

* `matmul`, `linear`, `add_bias`: products with one weight per run, and biases. Start here.
* `run_sums`, `run_means`, `squared_norms`: one number per run.
* `axis_sums`, `logsumexp`, `scale_rows`, `column_sums`: sums over other axes.

The libraries choose the order of their sums by the size of the batch, so a run would train to other bits alone than
among others. On a GPU the functions here use `kernels.gpu.dense`, whose order is fixed. On a CPU the sums of a run and
of its columns use `kernels.cpu.reductions`; the others are plain PyTorch, and models that need them train there one run
after the other. In double precision, without kernels, and inside `library_products()` all are plain PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from apgcn.ops.dispatch import MAX_GPU_ELEMENTS, kernels_for_device

_use_library = False


@contextmanager
def library_products() -> Iterator[None]:
    """Use PyTorch's products and sums inside the block, also on a GPU, to measure what fixed orders cost."""
    global _use_library
    before, _use_library = _use_library, True
    try:
        yield
    finally:
        _use_library = before


def dense_kernels(*inputs: Tensor, elements: int = 0, function: str = "matmul") -> Any | None:
    """Return the kernels for these inputs and matrices of so many elements in a run, or None for PyTorch.

    `function` is what the kernels must have; those of a CPU have no products.
    """
    if _use_library or elements >= MAX_GPU_ELEMENTS or any(tensor.dtype != torch.float32 for tensor in inputs):
        return None
    kernels = kernels_for_device(inputs[0].device)
    return kernels if hasattr(kernels, function) else None


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Return x W for every run.

    Shapes
    ------
    x : (nodes, in_channels) shared, without gradient, or (runs, ..., nodes, in_channels)
    weight : (runs, ..., in_channels, out_channels)
    returned : (runs, ..., nodes, out_channels)
    """
    kernels = _product_kernels(x, weight)
    if kernels is None:
        return x @ weight
    return _Linear.apply(_flatten(x), _flatten(weight), None, kernels).view(
        *weight.shape[:-2], *_product_shape(x, weight)
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W + b for every run, with b of shape (runs, ..., 1, out_channels); other shapes as in `matmul`."""
    kernels = _product_kernels(x, weight)
    if kernels is not None:
        output = _Linear.apply(_flatten(x), _flatten(weight), _flatten(bias), kernels)
        return output.view(*weight.shape[:-2], *_product_shape(x, weight))
    is_batched = x.is_cuda and x.ndim == 3 and len(x) == len(weight)
    return torch.baddbmm(bias, x, weight) if is_batched else x @ weight + bias


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return x + b for x of shape (runs, ..., nodes, channels) and b of shape (runs, ..., 1, channels)."""
    kernels = dense_kernels(x, bias, elements=math.prod(x.shape[-2:]))
    if kernels is None or bias.shape != (*x.shape[:-2], 1, x.shape[-1]):
        return x + bias
    return _AddBias.apply(x, bias, kernels)


def run_sums(x: Tensor) -> Tensor:
    """Return the sum of the values of every run: (runs, ...) to (runs,)."""
    kernels = dense_kernels(x, elements=math.prod(x.shape[1:]), function="run_sums")
    return x.sum(_run_axes(x)) if kernels is None else _RunSums.apply(x, kernels)


def run_means(x: Tensor) -> Tensor:
    """Return the mean of the values of every run: (runs, ...) to (runs,)."""
    return run_sums(x) / math.prod(x.shape[1:])


def squared_norms(x: Tensor) -> Tensor:
    """Return the sum of the squares of every run: (runs, ...) to (runs,)."""
    kernels = dense_kernels(x, elements=math.prod(x.shape[1:]), function="run_sums")
    return x.square().sum(_run_axes(x)) if kernels is None else _SquaredNorms.apply(x, kernels)


def axis_sums(x: Tensor, axis: int) -> Tensor:
    """Return the sum over one axis, which is not the last."""
    kernels = dense_kernels(x)
    return x.sum(axis) if kernels is None else _AxisSums.apply(x, axis, kernels)


def logsumexp(x: Tensor, axis: int) -> Tensor:
    """Return log sum exp x over one axis, which is not the last."""
    if dense_kernels(x) is None:
        return torch.logsumexp(x, axis)
    maximum = x.detach().amax(axis, keepdim=True)
    maximum = maximum.masked_fill(maximum.abs() == torch.inf, 0)
    return axis_sums((x - maximum).exp(), axis).log() + maximum.squeeze(axis)


def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    """Return the rows of x (..., channels), each times its scale (...)."""
    kernels = dense_kernels(x, scale)
    return scale[..., None] * x if kernels is None else _ScaleRows.apply(x, scale, kernels)


def column_sums(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum over the rows of every run, each times its weight, without gradient where kernels compute it.

    Shapes
    ------
    x : (runs, rows, columns)
    weights : (runs, rows)
    returned : (runs, columns)
    """
    if kernels := dense_kernels(x, elements=math.prod(x.shape[1:]), function="column_sums"):
        return kernels.column_sums(x, weights)
    return x.sum(1) if weights is None else (weights[:, None] @ x).squeeze(1)


def _run_axes(x: Tensor) -> tuple[int, ...]:
    """All axes but the first."""
    return tuple(range(1, x.ndim))


def _product_kernels(x: Tensor, weight: Tensor) -> Any | None:
    if x.requires_grad if x.ndim == 2 else x.shape[:-2] != weight.shape[:-2]:
        return None
    rows, columns = _product_shape(x, weight)
    return dense_kernels(x, weight, elements=max(rows * columns, rows * x.shape[-1], columns * x.shape[-1]))


def _product_shape(x: Tensor, weight: Tensor) -> tuple[int, int]:
    return x.shape[-2], weight.shape[-1]


def _flatten(x: Tensor) -> Tensor:
    """Merge the axes before the last two."""
    return x.flatten(0, -3) if x.ndim > 3 else x


class _Linear(torch.autograd.Function):
    """x W + b with three products of fixed order, forward and backward."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, kernels: ModuleType) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        ctx.kernels = kernels
        return kernels.matmul(x, weight, bias)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, weight = ctx.saved_tensors
        kernels, needed = ctx.kernels, ctx.needs_input_grad
        grad_x = kernels.matmul(grad_output, weight, transpose_b=True) if needed[0] else None
        grad_weight = kernels.matmul(x, grad_output, transpose_a=True) if needed[1] else None
        grad_bias = kernels.column_sums(grad_output)[:, None] if needed[2] else None
        return grad_x, grad_weight, grad_bias, None


class _AddBias(torch.autograd.Function):
    """x + b, with the gradient of b summed in a fixed order."""

    @staticmethod
    def forward(ctx, x: Tensor, bias: Tensor, kernels: ModuleType) -> Tensor:
        ctx.kernels, ctx.bias_shape = kernels, bias.shape
        return x + bias

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        grad_bias = None
        if ctx.needs_input_grad[1]:
            grad_bias = ctx.kernels.column_sums(_flatten(grad_output)).view(ctx.bias_shape)
        return grad_output, grad_bias, None


class _RunSums(torch.autograd.Function):
    """`run_sums` in a fixed order."""

    @staticmethod
    def forward(ctx, x: Tensor, kernels: ModuleType) -> Tensor:
        ctx.shape = x.shape
        return kernels.run_sums(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return grad_output.view(-1, *[1] * (len(ctx.shape) - 1)).expand(ctx.shape), None


class _SquaredNorms(torch.autograd.Function):
    """`squared_norms` in a fixed order."""

    @staticmethod
    def forward(ctx, x: Tensor, kernels: ModuleType) -> Tensor:
        ctx.save_for_backward(x)
        return kernels.run_sums(x, squared=True)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        (x,) = ctx.saved_tensors
        return x * (2 * grad_output).view(-1, *[1] * (x.ndim - 1)), None


class _AxisSums(torch.autograd.Function):
    """`axis_sums` in ascending order."""

    @staticmethod
    def forward(ctx, x: Tensor, axis: int, kernels: ModuleType) -> Tensor:
        ctx.axis, ctx.shape = axis, x.shape
        return kernels.axis_sums(x, axis)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return grad_output.unsqueeze(ctx.axis).expand(ctx.shape), None, None


class _ScaleRows(torch.autograd.Function):
    """`scale_rows`, with the gradient of the scales summed in a fixed order."""

    @staticmethod
    def forward(ctx, x: Tensor, scale: Tensor, kernels: ModuleType) -> Tensor:
        ctx.save_for_backward(x, scale)
        ctx.kernels = kernels
        return scale[..., None] * x

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, scale = ctx.saved_tensors
        grad_x = scale[..., None] * grad_output if ctx.needs_input_grad[0] else None
        grad_scale = ctx.kernels.row_dots(grad_output, x) if ctx.needs_input_grad[1] else None
        return grad_x, grad_scale, None
