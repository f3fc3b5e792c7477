"""What does a task of a Ray cluster do, on the machine where it runs?"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from apgcn import __version__
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import Report, from_time_to_time
from apgcn.benchmark.graph_cache import bring, cleaned
from apgcn.benchmark.records import PlannedBatch
from apgcn.data.graph import Graph
from apgcn.errors import ApgcnError, InvalidInput
from apgcn.ops.devices import memory_of, resolve
from apgcn.training.batching import bytes_per_run
from apgcn.training.config import split_config

PARTS_OF_A_GPU = 4  # more packs at once only hinder each other

Outcome = TypeVar("Outcome")


class Need(NamedTuple):
    """Bytes: of a pack, of each of its runs, and of the device."""

    shared: int
    per_run: int
    device: int


def need_of(run_config: RunConfig, *, device: str) -> Need:
    """What packs of a condition are estimated to need here."""
    graph, place = cleaned(run_config.dataset), resolve(device)
    model, _ = split_config(run_config.model, dict(run_config.hyperparameters))
    return Need(4 * model.floats_shared(graph), bytes_per_run(graph, model, place), memory_of(place))


def gpu_share(need: int, memory: int) -> float:
    """Which part of a GPU so many bytes are.

    >>> gpu_share(10, 100), gpu_share(60, 100), gpu_share(200, 100)
    (0.25, 0.75, 1.0)
    """
    return min(1.0, math.ceil(PARTS_OF_A_GPU * need / memory) / PARTS_OF_A_GPU)


def asked(run_config: RunConfig, *, function: Callable, device: str, given: dict[str, Any]) -> tuple[Any, Need]:
    """What a function says of a condition here, and what packs of it need."""
    return function(run_config, **given), need_of(run_config, device=device)


class Board:
    """How far each pack is."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def tell(self, key: str, share: float) -> None:
        self._shares[key] = share

    def shares(self) -> dict[str, float]:
        """What was told since the last time."""
        told, self._shares = self._shares, {}
        return told


class Mistake(NamedTuple):
    """What a user can put right, found in a task."""

    sentence: str


def there(version: str, dataset: str, graph: Graph, function: Callable, item: Any, given: dict[str, Any]) -> Any:
    """What a task does."""
    try:
        if version != __version__:
            raise InvalidInput(
                f"every machine of the Ray cluster must have apgcn {version}, but {socket.gethostname()} has "
                f"{__version__}; install the same there."
            )
        bring(dataset, graph)
        return function(item, **given)
    except (ApgcnError, OSError) as error:
        return Mistake(str(error))


def on_board(pack: PlannedBatch, *, function: Callable[[PlannedBatch, Report], Outcome], board: Any) -> Outcome:
    """Work on a pack that writes on the board how far it is."""
    return function(pack, from_time_to_time(lambda share: board.tell.remote(pack.key, share)))
