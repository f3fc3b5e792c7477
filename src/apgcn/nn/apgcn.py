"""AP-GCN, as a module for one's own training loop."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int
from apgcn.nn.apgcn_conv import AdaptivePropagation


class APGCN(nn.Module):
    """Two layers at every node, then listening for as long as the node wants.

        z^0    = W_2 ReLU(W_1 x + b_1) + b_2         dropout before each layer
        output = AdaptivePropagation(z^0)

    Parameters
    ----------
    in_channels, hidden_channels, out_channels : int
        Size of each node's features, of the hidden layer and of the output.
    max_steps : int
        How often a node may listen at most.
    dropout : float
        Before each layer, and of edges at every step.

    Shapes
    ------
    As in `AdaptivePropagation`.

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
        self.propagation = AdaptivePropagation(
            out_channels, max_steps=max_steps, epsilon=epsilon, dropout=dropout, freeze_halted=freeze_halted
        )

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for part in (self.lin1, self.lin2, self.propagation):
            part.reset_parameters()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, return_steps: bool = False
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        x = functional.dropout(x, self.dropout, training=self.training)
        x = self.lin1(x).relu()
        x = functional.dropout(x, self.dropout, training=self.training)
        return self.propagation(self.lin2(x), edge_index, edge_weight, return_steps=return_steps)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        frozen = ", freeze_halted=True" if self.propagation.freeze_halted else ""
        return f"{self.__class__.__name__}({sizes}, max_steps={self.propagation.max_steps}{frozen})"
