"""What must a network offer to be trained here? Any class with these methods is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from apgcn.graph import Graph
from apgcn.models.given import Given
from apgcn.noise import Noise
from apgcn.propagation import Propagated
from apgcn.tensors import GraphTensors


class Network(Protocol):
    """A pack of networks: a `torch.nn.Module` whose parameters all have a leading run axis."""

    def __call__(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits, steps and remainders of all nodes. With noise this is training, without it evaluation."""
        ...

    def penalties(self, outcome: Propagated, nodes: Tensor) -> Tensor:
        """What the objective adds for some nodes (runs, m), one value per run."""
        ...

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks."""
        ...

    def learns(self, parameter: nn.Parameter, epoch: int) -> bool:
        """Whether a parameter moves on an epoch, counted from 1."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


class PlainNetwork(nn.Module):
    """What most networks have in common: listening costs nothing, and all weights learn on every epoch."""

    def penalties(self, outcome: Propagated, nodes: Tensor) -> Tensor:
        return outcome.output.new_zeros(len(nodes))

    def learns(self, parameter: nn.Parameter, epoch: int) -> bool:
        return True


class ModelSettings(Protocol):
    """What can be chosen about a network: a frozen dataclass that can build it.

    A model without weights has, instead of `build`, a method `solve(graph, seeds)` that answers at once: see `btfp`.
    """

    name: ClassVar[str]  # what users call the model
    title: ClassVar[str]  # what a table calls it
    citation: ClassVar[str]  # its paper
    given: ClassVar[tuple[Given, ...]]  # settings, and where each comes from

    @property
    def max_steps(self) -> int:
        """The most steps that a node can listen."""
        ...

    def build(self, graph: GraphTensors, noise: Noise) -> Network:
        """A pack of networks for a graph, one per run of the noise, with initial weights drawn from it."""
        ...

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        ...


def outcome_at(network: Network, graph: GraphTensors, noise: Noise, nodes: Tensor) -> Propagated:
    """A training step's outcome, of which only some nodes (runs, m) matter.

    A network that can save work when it knows them has a method `only(graph, noise, nodes)`.
    """
    only = getattr(network, "only", None)
    return network(graph, noise) if only is None else only(graph, noise, nodes)


def has_weights(model: Any) -> bool:
    """Whether a model (or its class of settings) is trained from initial weights, run by run."""
    return not hasattr(model, "solve")
