"""How far does every node listen, as a layer of one's own model?"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_bool, check_fraction, check_int
from apgcn.errors import InvalidInput
from apgcn.nn import halting
from apgcn.nn.gcn_propagation import NormalizedPropagation


class AdaptivePropagation(nn.Module):
    r"""The adaptive propagation of "Adaptive Propagation Graph Convolutional Network" (Spinelli et al., 2020).

        z^k    = operator(z^(k-1)),  z^0 = x
        h_i^k  = sigmoid(Q z_i^k + q)
        K_i    = the first k with h_i^1 + ... + h_i^k >= 1 - epsilon, at most max_steps
        output = 1/K_i * sum over k <= K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1)

    Parameters
    ----------
    channels : int
        Size of each node's features, which the operator must keep.
    max_steps : int
        How often a node may listen at most.
    epsilon : float
        A node stops when its probabilities sum to 1 - epsilon.
    dropout : float
        Of edges, fresh at every step, by the default operator.
    operator : callable, optional
        One step: `operator(x, edge_index, edge_weight)`, such as a convolution of PyTorch Geometric from `channels` to
        `channels`. Without it the step is D^-1/2 (A + I) D^-1/2.
    freeze_halted : bool
        Whether a node keeps its value after it has stopped; in the paper it goes on changing for those who hear it.

    Shapes
    ------
    x : (..., nodes, channels)
    edge_index : (2, edges), or a `torch.sparse` matrix
    edge_weight : (edges,), optional, not below 0
    output : (..., nodes, channels); with `return_steps=True` also steps and remainder (..., nodes), whose sum's mean is
        what the paper's penalty multiplies.

    Examples
    --------
    >>> layer = AdaptivePropagation(16)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> out, steps, remainder = layer(torch.randn(3, 16), edge_index, return_steps=True)
    >>> out.shape, steps.shape
    (torch.Size([3, 16]), torch.Size([3]))
    """

    def __init__(
        self,
        channels: int,
        max_steps: int = 10,
        epsilon: float = 0.01,
        dropout: float = 0.0,
        operator: Callable[..., Tensor] | None = None,
        freeze_halted: bool = False,
    ):
        super().__init__()
        check_int("channels", channels)
        check_int("max_steps", max_steps)
        check_fraction("epsilon", epsilon)
        check_bool("freeze_halted", freeze_halted)
        if operator is not None and not callable(operator):
            raise InvalidInput(f"operator must be a step to call, such as GCNConv(16, 16), got {operator!r}.")
        self.channels = channels
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.freeze_halted = freeze_halted
        self.operator = NormalizedPropagation(dropout) if operator is None else operator
        self.halting_unit = nn.Linear(channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew; at first a node listens about to the end."""
        self.halting_unit.reset_parameters()
        nn.init.constant_(self.halting_unit.bias, -math.log(self.max_steps))  # logit(1 / (T + 1))
        reset = getattr(self.operator, "reset_parameters", None)
        if reset is not None:
            reset()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, return_steps: bool = False
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        given = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        if x.ndim < 2 or x.shape[-1] != self.channels:
            raise InvalidInput(f"x must have shape (..., nodes, {self.channels}), got {tuple(x.shape)}.")
        states, asked = [x], []
        filled = torch.zeros((), device=x.device)
        for _ in range(self.max_steps):
            new = self.operator(states[-1], *given)
            if new.shape != x.shape:
                raise InvalidInput(f"operator must keep the shape {tuple(x.shape)}, got {tuple(new.shape)}.")
            if self.freeze_halted:
                new = torch.where((filled < 1 - self.epsilon)[..., None], new, states[-1])
            states.append(new)
            asked.append(self.halting_unit(new).squeeze(-1).float().sigmoid())
            if self.freeze_halted:
                filled = filled + asked[-1].detach()
        z, h = torch.stack(states), torch.stack(asked)  # (T + 1, ..., nodes, channels), (T, ..., nodes)
        steps = halting.halting_steps(h, epsilon=self.epsilon)
        remainder = halting.remainders(h, steps)
        output = halting.combine(z, halting.step_weights(h, steps, remainder).to(z.dtype), steps)
        return (output, steps, remainder) if return_steps else output

    def __repr__(self) -> str:
        frozen = ", freeze_halted=True" if self.freeze_halted else ""
        sizes = f"{self.channels}, max_steps={self.max_steps}{frozen}"
        return f"{self.__class__.__name__}({sizes}, operator={self.operator})"
