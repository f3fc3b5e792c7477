"""Who does the work? The tasks of a Ray cluster, or of one that is started on this machine.

A pack is a task. It asks for a processor and for the memory that its runs are estimated to take, or for that share of a
GPU; its graph travels once to every machine that needs it, through Ray's object store; what it found comes back here
and is recorded here, so that nothing but this process needs the store's folder. When a task's machine or process dies,
the pack is given to another, `RETRIES` times.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, TypeVar

from apgcn import __version__
from apgcn.devices import memory_of, named, resolve
from apgcn.errors import ApgcnError, InvalidInput, MissingDevice, MissingPackage, NoCluster, WorkerDied
from apgcn.experiments.executors import Report, from_time_to_time
from apgcn.experiments.graphs import bring, cleaned
from apgcn.experiments.keys import Condition
from apgcn.experiments.pack import PlannedPack
from apgcn.experiments.ray_cluster import connect, first_line, imported_ray
from apgcn.graph import Graph
from apgcn.texts import counted
from apgcn.training.packs import bytes_per_run
from apgcn.training.paper import divide_settings

RETRIES = 3  # after the first attempt
LOOK_EVERY = 0.5  # seconds
PROCESS = 2**29  # bytes that a process takes before it has begun
PARTS_OF_A_GPU = 4  # more packs at once only hinder each other
BACK_WITHIN = 300.0  # seconds, or no machine will come back

Outcome = TypeVar("Outcome")


class OnRay:
    """Packs as tasks of a Ray cluster.

    Parameters
    ----------
    address : str, optional
        Where the cluster is, as Ray takes it: "auto" for the one of this machine, or "host:port". Without it and
        without RAY_ADDRESS in the environment a cluster of this machine alone is started, and ended with us.
    device : str
        "cpu" or "cuda", there.
    processors : int, optional
        How many a cluster that is started here has; all of the machine, if not said.

    Raises
    ------
    MissingPackage
        If Ray is not installed.
    NoCluster
        If nobody answers at the address.
    MissingDevice
        If the cluster has no GPU, but one is asked for.
    """

    at_once = 1  # Ray sees to it that tasks share the memory of a machine

    def __init__(self, address: str | None = None, *, device: str = "cpu", processors: int | None = None):
        self._ray = imported_ray()
        self._device = named(device).type
        if device not in ("cpu", "cuda"):
            raise InvalidInput(f"on a Ray cluster the device must be cpu or cuda, any of its GPUs, got {device}.")
        self._graphs: dict[str, Any] = {}
        self._needs: dict[Condition, _Need] = {}
        self._seen = time.monotonic()  # when there was last a machine
        self._ours = connect(self._ray, address, processors)
        if self._device == "cuda" and not self._count("GPU"):
            self.close()
            raise MissingDevice("device cuda needs a GPU in the Ray cluster, but no machine of it has one; try cpu.")

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        if self._ours:
            self._ray.shutdown()

    def __str__(self) -> str:
        """What the cluster has, in words."""
        machines = sum(node["Alive"] for node in self._ray.nodes())
        gpus = f", {counted(self._count('GPU'), 'GPU')}" if self._count("GPU") else ""
        return f"{counted(machines, 'machine')}, {counted(self._count('CPU'), 'processor')}{gpus}"

    def ask(self, function: Callable[..., Outcome], condition: Condition, **given: Any) -> Outcome:
        """What a function says of a condition where it would be worked on; it does not wait for a free processor.

        In passing it is asked what packs of the condition need there.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        smallest = min(self._workers, key=lambda node: node["Resources"].get("memory", 0))
        task = self._ray.remote(_there).options(
            num_cpus=0,
            num_gpus=1 / PARTS_OF_A_GPU if self._device == "cuda" else 0,
            max_retries=RETRIES,
            scheduling_strategy=NodeAffinitySchedulingStrategy(smallest["NodeID"], soft=True),
        )
        given = {"function": function, "device": self._device, "given": given}
        try:
            answer, self._needs[condition] = self._understood(
                task.remote(*self._about(condition), _asked, condition, given)
            )
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"no machine of the Ray cluster could be asked ({first_line(error)}).") from None
        return answer

    def run(
        self,
        function: Callable[[PlannedPack, Report], Outcome],
        items: Iterable[PlannedPack],
        watch: Callable[[PlannedPack, float], None],
    ) -> Generator[tuple[PlannedPack, Outcome], None, None]:
        """Call the function with every pack; `watch` hears how far each is."""
        ray, waiting = self._ray, iter(items)
        board = self._board()
        busy: dict[Any, tuple[PlannedPack, int]] = {}  # which pack, and how often it was tried before

        def begin(pack: PlannedPack, tried: int) -> None:
            busy[self._begin(function, pack, board)] = pack, tried

        try:
            while True:
                while len(busy) < self._in_flight and (item := next(waiting, None)) is not None:
                    begin(item, 0)
                if not busy:
                    return
                done, _ = ray.wait(list(busy), timeout=LOOK_EVERY)
                self._look_for_machines()
                for key, share in self._shares(board).items():
                    for pack, _ in busy.values():
                        if pack.key == key:
                            watch(pack, share)
                for task in done:
                    pack, tried = busy.pop(task)
                    try:
                        outcome = self._understood(task)
                    except ray.exceptions.RayError as error:
                        if tried == RETRIES:
                            raise WorkerDied(_gave_up(pack, error)) from None
                        begin(pack, tried + 1)
                    else:
                        yield pack, outcome
        finally:
            for task in busy:
                ray.cancel(task, force=True)
            ray.kill(board)

    def _look_for_machines(self) -> None:
        """Wait for a machine to come back, but not for ever."""
        try:
            self._seen = time.monotonic() if self._workers else self._seen
        except NoCluster:
            if time.monotonic() - self._seen > BACK_WITHIN:
                raise

    def _shares(self, board: Any) -> dict[str, float]:
        """What tasks have written; if the board is lost, nothing but the bar suffers."""
        try:
            return self._ray.get(board.shares.remote())
        except self._ray.exceptions.RayError:
            return {}

    @property
    def _in_flight(self) -> int:
        """How many packs are given to Ray: enough that no machine waits, and that one which grows sees why."""
        return max(4, 2 * (self._count("CPU") if self._device == "cpu" else PARTS_OF_A_GPU * self._count("GPU")))

    def _count(self, what: str) -> int:
        return int(self._ray.cluster_resources().get(what, 0))

    def _begin(self, function: Callable, pack: PlannedPack, board: Any) -> Any:
        task = self._ray.remote(_there).options(max_retries=0, **self.request(pack))
        given = {"function": function, "board": board}
        return task.remote(*self._about(pack.condition), _on_board, pack, given)

    def request(self, pack: PlannedPack) -> dict[str, Any]:
        """What a pack asks for, as Ray takes it; never more than the largest machine has, which would be for ever."""
        need = self._need(pack.condition)
        memory = need.shared + len(pack.runs) * need.per_run
        if self._device == "cuda":
            return {"num_cpus": 1, "num_gpus": gpu_share(memory, need.device)}
        largest = max(int(node["Resources"].get("memory", 0)) for node in self._workers)
        return {"num_cpus": 1, "memory": min(memory + PROCESS, largest)}

    @property
    def _workers(self) -> list[dict[str, Any]]:
        """The machines that can take a task."""
        what = "GPU" if self._device == "cuda" else "CPU"
        found = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get(what, 0) >= 1]
        if not found:
            raise NoCluster(f"the Ray cluster must have a machine with a {what}, but none is there.")
        return found

    def _need(self, condition: Condition) -> _Need:
        if condition not in self._needs:
            self.ask(_need, condition, device=self._device)
        return self._needs[condition]

    def _about(self, condition: Condition) -> tuple[str, str, Any]:
        """What every task is given: our version, and the name of a graph with the graph, in the object store."""
        name = condition.dataset
        if name not in self._graphs:
            self._graphs[name] = self._ray.put(cleaned(name))
        return __version__, name, self._graphs[name]

    def _understood(self, task: Any) -> Any:
        """What a task returned; a mistake is told here."""
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if "No module named 'apgcn" in str(error):
                raise MissingPackage("every machine of the Ray cluster must have apgcn, but one does not.") from None
            raise RuntimeError(f"in a Ray task:\n{error}") from None
        if isinstance(outcome, _Mistake):
            raise ApgcnError(outcome.sentence)
        return outcome

    def _board(self) -> Any:
        """Where tasks write how far they are; on this machine, which lives as long as we do."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here).remote()


class _Need(NamedTuple):
    """Bytes: of a pack, of each of its runs, and of the device."""

    shared: int
    per_run: int
    device: int


def _need(condition: Condition, *, device: str) -> _Need:
    graph, place = cleaned(condition.dataset), resolve(device)
    model, _ = divide_settings(condition.model, dict(condition.settings))
    return _Need(4 * model.floats_shared(graph), bytes_per_run(graph, model, place), memory_of(place))


def gpu_share(need: int, memory: int) -> float:
    """Which part of a GPU so many bytes are.

    >>> gpu_share(10, 100), gpu_share(60, 100), gpu_share(200, 100)
    (0.25, 0.75, 1.0)
    """
    return min(1.0, math.ceil(PARTS_OF_A_GPU * need / memory) / PARTS_OF_A_GPU)


def _asked(condition: Condition, *, function: Callable, device: str, given: dict[str, Any]) -> tuple[Any, _Need]:
    return function(condition, **given), _need(condition, device=device)


class _Board:
    """How far each pack is."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def tell(self, key: str, share: float) -> None:
        self._shares[key] = share

    def shares(self) -> dict[str, float]:
        """What was told since the last time."""
        told, self._shares = self._shares, {}
        return told


class _Mistake(NamedTuple):
    """What a user can put right, found in a task."""

    sentence: str


def _there(version: str, dataset: str, graph: Graph, function: Callable, item: Any, given: dict[str, Any]) -> Any:
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
        return _Mistake(str(error))


def _on_board(pack: PlannedPack, *, function: Callable[[PlannedPack, Report], Outcome], board: Any) -> Outcome:
    """Work on a pack that writes on the board how far it is."""
    return function(pack, from_time_to_time(lambda share: board.tell.remote(pack.key, share)))


def _gave_up(pack: PlannedPack, error: Exception) -> str:
    return (
        f"pack {pack.key} must be trained in {RETRIES + 1} attempts, but its process or machine died in each "
        f"({first_line(error)}); what is done is kept: look at the cluster's memory and start again."
    )
