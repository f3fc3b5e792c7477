"""CPU kernel of Adam; the reference is PyTorch's, compared in `test_adam_matches_pytorch`.

Every value is updated by itself, in arithmetic that the compiler may not rearrange, so that its bits depend neither on
its position nor on the number of threads. PyTorch's fused Adam computes the last values of an array by other
instructions than the rest.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ONE, to_numpy
from apgcn.ops.kernels.cpu.parallel import choose_threads, parallel_kernel, thread_range


def adam(
    weight: Tensor,
    gradient: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    *,
    step: int,
    learning_rate: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Take one step of Adam, the `step`-th, in place; all tensors are contiguous and of the same shape."""
    first, second = (1 - beta**step for beta in betas)
    _adam(
        choose_threads(weight.numel()),
        *(array.reshape(-1) for array in to_numpy(weight, gradient, exp_avg, exp_avg_sq)),
        np.float32(learning_rate / first),
        np.float32(1 / math.sqrt(second)),
        *(np.float32(beta) for beta in betas),
        np.float32(epsilon),
    )


@parallel_kernel(exact=True)
def _adam(weight, gradient, exp_avg, exp_avg_sq, step_size, correction, beta_1, beta_2, epsilon, thread, threads, sync):
    first, last = thread_range(len(weight), thread, threads)
    for i in range(np.uint64(first), np.uint64(last)):
        exp_avg[i] = beta_1 * exp_avg[i] + (ONE - beta_1) * gradient[i]
        exp_avg_sq[i] = beta_2 * exp_avg_sq[i] + (ONE - beta_2) * gradient[i] * gradient[i]
        weight[i] -= step_size * exp_avg[i] / (np.sqrt(exp_avg_sq[i]) * correction + epsilon)
