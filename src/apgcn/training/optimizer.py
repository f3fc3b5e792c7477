"""Adam for a run batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from apgcn.ops.dispatch import kernels_for_device

BETAS, EPSILON = (0.9, 0.999), 1e-8


class BatchedAdam:
    """Adam over parameters with a run axis; a parameter without gradient is not updated, its momentum included.

    On a CPU a kernel takes the step, where there is one: it uses several threads, and computes every value by the same
    instructions. Elsewhere PyTorch's function does. It is not a `torch.optim.Optimizer`, because the first instance of
    that in a process imports PyTorch's compiler, which takes a second or more.

    Attributes
    ----------
    parameters : list of Tensor
    state : dict
        "step", "exp_avg" and "exp_avg_sq" of each parameter that has been updated, as `torch.optim.Adam` names them.
    """

    def __init__(self, parameters: Iterable[Tensor], *, learning_rate: float):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        updated = [parameter for parameter in self.parameters if parameter.grad is not None]
        if not updated:
            return
        states = [self._state_of(parameter) for parameter in updated]
        kernels = kernels_for_device(updated[0].device)
        if hasattr(kernels, "adam"):
            for parameter, state in zip(updated, states, strict=True):
                self._take_kernel_step(parameter, state, kernels)
            return
        adam(
            updated,
            [parameter.grad for parameter in updated],  # type: ignore[misc]
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],  # of another algorithm, AMSGrad
            [state["step"] for state in states],
            fused=True,
            capturable=updated[0].is_cuda,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def _take_kernel_step(self, parameter: Tensor, state: dict[str, Tensor], kernels: Any) -> None:
        state["step"] += 1
        kernels.adam(
            parameter,
            parameter.grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            step=int(state["step"]),
            learning_rate=self.learning_rate,
            betas=BETAS,
            epsilon=EPSILON,
        )
