"""How is a network trained, whichever network it is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from apgcn.checks import check_number, check_whole
from apgcn.errors import InvalidInput

Watch = Literal["stopping", "training", "regularised"]
StopOn = Literal["either", "tie", "loss"]


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation and early stopping; the defaults are the paper's.

    `watch` is the loss that resets patience and breaks ties between equal stopping accuracies: the cross-entropy of the
    stopping set (the paper's text); the whole objective on the training set, dropout off (the authors' script); or the
    cross-entropy of the stopping set and the l2 term (the program of the PPNP paper).

    `stop_on` says what resets patience: a better accuracy or a better loss than ever (the paper's text); one that is as
    good as the best (the program of the PPNP paper); or a better loss alone, and then the epoch of the lowest is the
    best (V.GCN). In the first two the best epoch is the most accurate.
    """

    learning_rate: float = 0.01
    l2: float = 0.008
    patience: int = 100
    max_epochs: int = 10_000
    watch: Watch = "stopping"
    stop_on: StopOn = "either"

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        for name in ("patience", "max_epochs"):
            check_whole(name, getattr(self, name))
        for name, words in (("watch", get_args(Watch)), ("stop_on", get_args(StopOn))):
            if getattr(self, name) not in words:
                raise InvalidInput(f"{name} must be one of {', '.join(words)}, got {getattr(self, name)!r}.")
