"""How much of an experiment is asked for?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apgcn.experiments.keys import Condition
from apgcn.models.catalogue import MODELS
from apgcn.models.given import kinds_for

PROTOCOL = 100  # runs: 20 splits x 5 initialisations


@dataclass(frozen=True)
class Scope:
    """Which models on which graphs, and how many runs of each; without a number, whatever there is.

    `kind` says which settings, see `models.given`; none of them, those behind the paper's tables.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    runs: int | None = PROTOCOL
    kind: str | None = None

    def takes(self, dataset: str, model: str) -> bool:
        """Whether we have the model, with settings of this kind for the graph."""
        return model in MODELS and (self.kind is None or self.kind in kinds_for(MODELS[model], dataset))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Graph by graph, the models that can be trained on it."""
        for dataset in self.datasets:
            yield from ((dataset, model) for model in self.models if self.takes(dataset, model))

    def condition(self, dataset: str, model: str, **changes: Any) -> Condition:
        """A model on a graph, with settings of this kind."""
        return Condition.of_paper(dataset, model, kind=self.kind, **changes)
