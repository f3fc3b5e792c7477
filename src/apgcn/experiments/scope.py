"""How much of an experiment is asked for?"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL = 100  # runs: 20 splits x 5 initialisations


@dataclass(frozen=True)
class Scope:
    """Which models on which graphs, and how many runs of each; without a number, whatever there is."""

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    runs: int | None = PROTOCOL
