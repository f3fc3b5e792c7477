"""Who does the work? The tasks of a Ray cluster, or of one that is started on this machine.

A pack is a task. It asks for a processor and for the memory that its runs are estimated to take, or for that share of a
GPU; its graph travels once to every machine that needs it, through Ray's object store; what it found comes back here
and is recorded here, so that nothing but this process needs the store's folder. When a task's machine or process dies,
the pack is given to another, `RETRIES` times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from apgcn import __version__
from apgcn._utils.formatting import counted
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import Report
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.ray_cluster import Head, answers, connect, first_line, imported_ray
from apgcn.benchmark.ray_tasks import PARTS_OF_A_GPU, Board, Mistake, Need, asked, gpu_share, need_of, on_board, there
from apgcn.benchmark.records import PlannedBatch
from apgcn.errors import ApgcnError, InvalidInput, MissingDevice, MissingPackage, NoCluster, WorkerDied
from apgcn.ops.devices import named

RETRIES = 3  # after the first attempt
LOOK_EVERY = 0.5  # seconds
PROCESS = 2**29  # bytes that a process takes before it has begun
MACHINES_BACK_WITHIN = 300.0  # seconds, or no machine will come back

Outcome = TypeVar("Outcome")


class RayExecutor:
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
        self._needs: dict[RunConfig, Need] = {}
        self.halting_probabilities: dict[Any, int] = {}  # bytes, of every task that is not done
        self._seen = time.monotonic()  # when there was last a machine
        self._ours = connect(self._ray, address, processors)
        self._head = Head(self._ray.get_runtime_context().gcs_address)
        if self._device == "cuda" and not self._count("GPU"):
            self.close()
            raise MissingDevice("device cuda needs a GPU in the Ray cluster, but no machine of it has one; try cpu.")

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()
        if self._head.lost and kind is KeyboardInterrupt:
            raise NoCluster(self._head.sentence) from None

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        self._head.forget()
        if self._ours and not self._head.lost:
            self._ray.shutdown()

    def __str__(self) -> str:
        """What the cluster has, in words."""
        machines = sum(node["Alive"] for node in self._ray.nodes())
        gpus = f", {counted(self._count('GPU'), 'GPU')}" if self._count("GPU") else ""
        return f"{counted(machines, 'machine')}, {counted(self._count('CPU'), 'processor')}{gpus}"

    def ask(self, function: Callable[..., Outcome], run_config: RunConfig, **given: Any) -> Outcome:
        """What a function says of a condition where it would be worked on; it does not wait for a free processor.

        In passing it is asked what packs of the condition need there.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        workers = self._workers
        if not workers:
            raise self._no_machine()
        smallest = min(workers, key=lambda node: node["Resources"].get("memory", 0))
        task = self._ray.remote(there).options(
            num_cpus=0,
            num_gpus=1 / PARTS_OF_A_GPU if self._device == "cuda" else 0,
            max_retries=RETRIES,
            scheduling_strategy=NodeAffinitySchedulingStrategy(smallest["NodeID"], soft=True),
        )
        given = {"function": function, "device": self._device, "given": given}
        try:
            answer, self._needs[run_config] = self._understood(
                task.remote(*self._about(run_config), asked, run_config, given)
            )
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"no machine of the Ray cluster could be asked ({first_line(error)}).") from None
        return answer

    def run(
        self,
        function: Callable[[PlannedBatch, Report], Outcome],
        items: Iterable[PlannedBatch],
        watch: Callable[[PlannedBatch, float], None],
    ) -> Generator[tuple[PlannedBatch, Outcome], None, None]:
        """Call the function with every pack; `watch` hears how far each is."""
        ray, waiting = self._ray, ((pack, 0) for pack in items)
        board = self._board()
        busy: dict[Any, tuple[PlannedBatch, int]] = {}  # which pack, and how often it was tried before
        again: list[tuple[PlannedBatch, int]] = []  # likewise, of those whose tasks have died
        try:
            while True:
                possible = self._has_machines()
                for task in self._impossible(busy) if possible else ():
                    ray.cancel(task)
                    again.append(busy.pop(task))
                while possible and len(busy) < self._in_flight:
                    item = again.pop() if again else next(waiting, None)
                    if item is None:
                        break
                    busy[self._begin(function, item[0], board)] = item
                if not busy:
                    if possible:
                        return
                    time.sleep(LOOK_EVERY)
                    continue
                done, _ = ray.wait(list(busy), timeout=LOOK_EVERY)
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
                        again.append((pack, tried + 1))
                    else:
                        yield pack, outcome
        finally:
            if not self._head.lost:
                for task in busy:
                    ray.cancel(task, force=True)
                ray.kill(board)

    def _has_machines(self) -> bool:
        """Whether anybody could take a task; if not, one may come back, but that is not waited for without end."""
        if not answers(self._head.address):  # nor would Ray, and wait without end
            return False
        if self._workers:
            self._seen = time.monotonic()
            return True
        if time.monotonic() - self._seen > MACHINES_BACK_WITHIN:
            raise self._no_machine()
        return False

    def _no_machine(self) -> NoCluster:
        return NoCluster(
            f"the Ray cluster must have a machine with a {self._what}, but none is there; what is done is kept: when "
            "there is one, the same command goes on."
        )

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

    def _begin(self, function: Callable, pack: PlannedBatch, board: Any) -> Any:
        request = self.request(pack)
        task = self._ray.remote(there).options(max_retries=0, **request)
        given = {"function": function, "board": board}
        begun = task.remote(*self._about(pack.run_config), on_board, pack, given)
        self.halting_probabilities[begun] = request.get("memory", 0)
        return begun

    def request(self, pack: PlannedBatch) -> dict[str, Any]:
        """What a pack asks for, as Ray takes it; never more than the largest machine has, which would be for ever."""
        need = self._need(pack.run_config)
        memory = need.shared + len(pack.runs) * need.per_run
        if self._device == "cuda":
            return {"num_cpus": 1, "num_gpus": gpu_share(memory, need.device)}
        return {"num_cpus": 1, "memory": min(memory + PROCESS, self._largest())}

    def _impossible(self, busy: Iterable[Any]) -> list[Any]:
        """Tasks that asked for more memory than any machine has now that a larger one is gone."""
        largest = self._largest()
        self.halting_probabilities = {task: self.halting_probabilities[task] for task in busy}
        return [task for task, memory in self.halting_probabilities.items() if memory > largest]

    def _largest(self) -> int:
        """The memory of the largest machine."""
        return max((int(node["Resources"].get("memory", 0)) for node in self._workers), default=0)

    @property
    def _workers(self) -> list[dict[str, Any]]:
        """The machines that can take a task."""
        return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get(self._what, 0) >= 1]

    @property
    def _what(self) -> str:
        return "GPU" if self._device == "cuda" else "CPU"

    def _need(self, run_config: RunConfig) -> Need:
        if run_config not in self._needs:
            self.ask(need_of, run_config, device=self._device)
        return self._needs[run_config]

    def _about(self, run_config: RunConfig) -> tuple[str, str, Any]:
        """What every task is given: our version, and the name of a graph with the graph, in the object store."""
        name = run_config.dataset
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
        if isinstance(outcome, Mistake):
            raise ApgcnError(outcome.sentence)
        return outcome

    def _board(self) -> Any:
        """Where tasks write how far they are; on this machine, which lives as long as we do."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()


def _gave_up(pack: PlannedBatch, error: Exception) -> str:
    return (
        f"pack {pack.key} must be trained in {RETRIES + 1} attempts, but its process or machine died in each "
        f"({first_line(error)}); what is done is kept: look at the cluster's memory and start again."
    )
