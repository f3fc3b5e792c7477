"""Adam for a run batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from apgcn.ops.dispatch import kernels_for_device


class BatchedAdam(torch.optim.Adam):
    """Adam over parameters with a run axis; a parameter without gradient is not updated, its momentum included.

    On a CPU a kernel takes the step, where there is one: it uses several threads, and computes every value by the same
    instructions. The state is that of `torch.optim.Adam`.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take one step."""
        kernels = kernels_for_device(self.param_groups[0]["params"][0].device)
        if not hasattr(kernels, "adam"):
            super().step(closure)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group, kernels)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any], kernels: Any) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
        state["step"] += 1
        kernels.adam(
            parameter.data,
            parameter.grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            step=int(state["step"]),
            learning_rate=group["lr"],
            betas=group["betas"],
            epsilon=group["eps"],
        )
