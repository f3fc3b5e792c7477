"""Neural network modules: adaptive propagation, its operators and its halting rule.

For a training loop of yours, with the arguments of PyTorch Geometric's modules (which need not be installed):

* `APGCN` and `APGCNConv` (`apgcn`): the model and the propagation layer, called with `x, edge_index, edge_weight`;
* `GCNPropagation` (`gcn_propagation`): the default propagation step of `APGCNConv`.

For the batched models, whose tensors have a leading run axis, (runs, nodes, channels):

* `AdaptivePropagation`, `FixedPropagation`, `PropagationOutput` (`propagation`): the propagation layers;
* `NormalizedAdjacency`, `PageRank`, `Chebyshev`, `ARMA` (`operators`): what one propagation step computes;
* `layers`: linear layers, the MLP and dropout over the run axis.

`halting` has the equations for both: `halting_steps`, `remainders`, `step_weights`, `combine`. Start there, or with
`APGCNConv`.
"""

from apgcn.nn.apgcn import APGCN, APGCNConv
from apgcn.nn.gcn_propagation import GCNPropagation
from apgcn.nn.halting import combine, halting_steps, remainders, step_weights
from apgcn.nn.operators import ARMA, Chebyshev, NormalizedAdjacency, Operator, PageRank
from apgcn.nn.propagation import AdaptivePropagation, FixedPropagation, PropagationOutput

__all__ = [
    "APGCN",
    "ARMA",
    "APGCNConv",
    "AdaptivePropagation",
    "Chebyshev",
    "FixedPropagation",
    "GCNPropagation",
    "NormalizedAdjacency",
    "Operator",
    "PageRank",
    "PropagationOutput",
    "combine",
    "halting_steps",
    "remainders",
    "step_weights",
]
