"""AP-GCN and its propagation layer as modules for (x, edge_index), with the arguments of PyTorch Geometric's."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_bool, check_fraction, check_int
from apgcn.errors import InvalidInput
from apgcn.nn import halting
from apgcn.nn.gcn_propagation import GCNPropagation


class APGCNConv(nn.Module):
    r"""The adaptive propagation layer of "Adaptive Propagation Graph Convolutional Network" (Spinelli et al., 2020).

        z^k    = operator(z^(k-1)),  z^0 = x
        h_i^k  = sigmoid(Q z_i^k + q)
        K_i    = the first k >= min_steps with h_i^1 + ... + h_i^k >= 1 - epsilon, at most max_steps
        R_i    = 1 - (h_i^1 + ... + h_i^(K_i - 1)), the remainder
        p_i^k  = h_i^1 + ... + h_i^k for k < K_i, and R_i for k = K_i
        output = 1/K_i * sum over k <= K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1)

    With `min_steps=0` the sums begin with h_i^0, of another linear layer, and

        h_i^0  = sigmoid(Q^0 z_i^0 + q^0)
        output = h_i^0 z_i^0 + ... + h_i^(K_i - 1) z_i^(K_i - 1) + R_i z_i^(K_i)

    Parameters
    ----------
    channels : int
        Size of each node's features, which the operator must keep.
    max_steps : int
        Largest number of propagation steps of a node.
    epsilon : float
        A node halts when its halting probabilities sum to 1 - epsilon.
    dropout : float
        Edge dropout of the default operator, with a new mask at every step.
    operator : callable, optional
        One step: `operator(x, edge_index, edge_weight)`, such as a convolution of PyTorch Geometric from `channels` to
        `channels`. By default the step is D^-1/2 (A + I) D^-1/2, `GCNPropagation`.
    freeze_halted : bool
        Whether the state of a node is frozen after it has halted; in the paper it is still updated, and its
        out-neighbours receive the updates.
    min_steps : int
        Smallest number of propagation steps of a node; with 0 a node may halt at its own x, before any step.

    Shapes
    ------
    x : (..., nodes, channels)
    edge_index : (2, edges), or a `torch.sparse` matrix
    edge_weight : (edges,), optional, not below 0
    output : (..., nodes, channels); with `return_steps=True` also steps and remainder (..., nodes). The paper's penalty
        multiplies the mean of their sum.

    Examples
    --------
    >>> conv = APGCNConv(16)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> out, steps, remainder = conv(torch.randn(3, 16), edge_index, return_steps=True)
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
        min_steps: int = 1,
    ):
        super().__init__()
        check_int("channels", channels)
        halting.check_steps(min_steps, max_steps)
        check_fraction("epsilon", epsilon)
        check_bool("freeze_halted", freeze_halted)
        if operator is not None and not callable(operator):
            raise InvalidInput(f"operator must be callable, such as GCNConv(16, 16), got {operator!r}.")
        self.channels = channels
        self.max_steps = max_steps
        self.min_steps = min_steps
        self.epsilon = epsilon
        self.freeze_halted = freeze_halted
        self.operator = GCNPropagation(dropout) if operator is None else operator
        self.halting_unit = nn.Linear(channels, 1)
        if min_steps == 0:
            self.initial_halting_unit = nn.Linear(channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters; with the initial bias a node halts near `max_steps`."""
        for unit in (self.halting_unit, self.initial_halting_unit) if self.min_steps == 0 else (self.halting_unit,):
            unit.reset_parameters()
            nn.init.constant_(unit.bias, -math.log(self.max_steps))  # logit(1 / (T + 1))
        if self.min_steps == 0:
            self.initial_halting_unit.bias.data -= halting.INITIAL_SHIFT
        reset = getattr(self.operator, "reset_parameters", None)
        if reset is not None:
            reset()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, return_steps: bool = False
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        edges = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        if x.ndim < 2 or x.shape[-1] != self.channels:
            raise InvalidInput(f"x must have shape (..., nodes, {self.channels}), got {tuple(x.shape)}.")
        states, probabilities = [x], []
        cumulative = torch.zeros((), device=x.device)
        if self.min_steps == 0:
            probabilities.append(self._probabilities(self.initial_halting_unit, x))
            cumulative = probabilities[0].detach()
        for k in range(1, self.max_steps + 1):
            z = self.operator(states[-1], *edges)
            if z.shape != x.shape:
                raise InvalidInput(f"operator must keep the shape {tuple(x.shape)}, got {tuple(z.shape)}.")
            if self.freeze_halted and k > self.min_steps:
                z = torch.where((cumulative < 1 - self.epsilon)[..., None], z, states[-1])
            states.append(z)
            probabilities.append(self._probabilities(self.halting_unit, z))
            if self.freeze_halted:
                cumulative = cumulative + probabilities[-1].detach()
        z, h = torch.stack(states), torch.stack(probabilities)  # (T + 1, ..., nodes, channels), (T, ..., nodes)
        steps = halting.halting_steps(h, epsilon=self.epsilon, min_steps=self.min_steps)
        remainder = halting.remainders(h, steps, min_steps=self.min_steps)
        p = halting.step_weights(h, steps, remainder, min_steps=self.min_steps)
        output = halting.combine(z, p.to(z.dtype), steps, min_steps=self.min_steps)
        return (output, steps, remainder) if return_steps else output

    @staticmethod
    def _probabilities(unit: nn.Linear, z: Tensor) -> Tensor:
        """h = sigmoid(Q z + q) of states z (..., nodes, channels), in single precision under autocast."""
        return unit(z).squeeze(-1).float().sigmoid()

    def __repr__(self) -> str:
        arguments = f"{self.channels}, {self.halting_arguments}"
        return f"{self.__class__.__name__}({arguments}, operator={self.operator})"

    @property
    def halting_arguments(self) -> str:
        """The arguments of the halting rule, those with their defaults left out, for `repr`."""
        minimum = "" if self.min_steps == 1 else f", min_steps={self.min_steps}"
        frozen = ", freeze_halted=True" if self.freeze_halted else ""
        return f"max_steps={self.max_steps}{minimum}{frozen}"


class APGCN(nn.Module):
    """The model of "Adaptive Propagation Graph Convolutional Network" (Spinelli et al., 2020).

        z^0    = W_2 ReLU(W_1 x + b_1) + b_2         dropout before each layer
        output = APGCNConv(z^0)

    Parameters
    ----------
    in_channels, hidden_channels, out_channels : int
        Size of each node's features, of the hidden layer and of the output.
    max_steps : int
        Largest number of propagation steps of a node.
    dropout : float
        Before each layer, and of edges at every step.
    epsilon, freeze_halted, min_steps
        As in `APGCNConv`.

    Shapes
    ------
    As in `APGCNConv`, with `in_channels` and `out_channels`.

    Examples
    --------
    >>> import torch
    >>> model = APGCN(in_channels=5, hidden_channels=64, out_channels=7)
    >>> model
    APGCN(5, 64, 7, max_steps=10)
    >>> model(torch.randn(3, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        max_steps: int = 10,
        dropout: float = 0.5,
        epsilon: float = 0.01,
        freeze_halted: bool = False,
        min_steps: int = 1,
    ):
        super().__init__()
        sizes = {"in_channels": in_channels, "hidden_channels": hidden_channels, "out_channels": out_channels}
        for name, value in sizes.items():
            check_int(name, value)
        check_fraction("dropout", dropout)
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.dropout = dropout
        self.lin1 = nn.Linear(in_channels, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, out_channels)
        self.propagation = APGCNConv(
            out_channels,
            max_steps=max_steps,
            epsilon=epsilon,
            dropout=dropout,
            freeze_halted=freeze_halted,
            min_steps=min_steps,
        )

    def reset_parameters(self) -> None:
        """Initialise the parameters."""
        for module in (self.lin1, self.lin2, self.propagation):
            module.reset_parameters()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, return_steps: bool = False
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        x = functional.dropout(x, self.dropout, training=self.training)
        x = self.lin1(x).relu()
        x = functional.dropout(x, self.dropout, training=self.training)
        return self.propagation(self.lin2(x), edge_index, edge_weight, return_steps=return_steps)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{self.__class__.__name__}({sizes}, {self.propagation.halting_arguments})"
