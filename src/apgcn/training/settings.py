"""How is a network trained, whichever network it is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from apgcn.checks import check_number, check_whole
from apgcn.errors import InvalidInput

Watch = Literal["stopping", "training"]


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation and early stopping; the defaults are the paper's.

    `watch` is the loss that resets patience and breaks ties between equal stopping accuracies: the cross-entropy of the
    stopping set (the paper's text), or the whole objective on the training set, dropout off (the authors' script).
    """

    learning_rate: float = 0.01
    l2: float = 0.008
    patience: int = 100
    max_epochs: int = 10_000
    watch: Watch = "stopping"

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        for name in ("patience", "max_epochs"):
            check_whole(name, getattr(self, name))
        if self.watch not in get_args(Watch):
            raise InvalidInput(f"watch must be one of {', '.join(get_args(Watch))}, got {self.watch!r}.")
