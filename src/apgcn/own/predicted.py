"""What is said of nodes, and what did it cost?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apgcn.errors import InvalidInput
from apgcn.work import Work


@dataclass(frozen=True, eq=False)
class Predicted:
    """What is said of every node that was asked for.

    Attributes
    ----------
    probabilities : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R, the mean over the initialisations.
    work, fixed : Work or None
        What it cost, and what it costs when every node of the graph takes all steps; None where nobody counted.
    """

    probabilities: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    work: Work | None = None
    fixed: Work | None = None

    @classmethod
    def of(
        cls,
        probabilities: np.ndarray,
        steps: np.ndarray,
        remainder: np.ndarray,
        *,
        work: Work | None = None,
        fixed: Work | None = None,
    ) -> Predicted:
        """The mean over the first axis, that of the initialisations."""
        if not np.isfinite(probabilities).all():
            raise InvalidInput(
                "what the model says is not finite; are the features of the size that they had in training?"
            )
        return cls(probabilities.mean(axis=0), steps.mean(axis=0), remainder.mean(axis=0), work, fixed)

    def at(self, nodes: np.ndarray) -> Predicted:
        """The same of some nodes."""
        return replace(
            self, probabilities=self.probabilities[nodes], steps=self.steps[nodes], remainder=self.remainder[nodes]
        )

    @property
    def classes(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def certainty(self) -> np.ndarray:
        """The probability of the class that is said."""
        return self.probabilities.max(axis=1)
