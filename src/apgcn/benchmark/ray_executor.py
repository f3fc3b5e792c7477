"""Executor that trains run batches as tasks of a Ray cluster, or of one that is started on this machine.

A run batch is a task. It requests a CPU for each of its threads, by default one, and the memory that its runs are
estimated to need, or that fraction of a GPU; its graph is sent once to every machine that needs it, through Ray's
object store; its records come back and are stored by this process, so that no other machine needs the store's folder.
When a task's machine or process dies, the run batch is submitted again, up to `RETRIES` times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from apgcn import __version__
from apgcn._utils.formatting import pluralize
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import ReportProgress
from apgcn.benchmark.ray_cluster import HeadMonitor, connect, first_line, import_ray, is_reachable
from apgcn.benchmark.ray_tasks import (
    BATCHES_PER_GPU,
    MemoryEstimate,
    ProgressActor,
    UserError,
    call_and_estimate,
    estimate_memory,
    gpu_fraction,
    run_task,
    train_with_progress,
)
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.worker import cleaned_graph, file_splits
from apgcn.errors import ApgcnError, InvalidInput, MissingDevice, MissingPackage, NoCluster, WorkerDied
from apgcn.ops.devices import parse_device
from apgcn.ops.threads import requested_threads

RETRIES = 3  # after the first attempt
POLL_SECONDS = 0.5
PROCESS_BYTES = 2**29  # that a process needs before it begins to train
NO_MACHINE_SECONDS = 300.0  # without a machine, after which none is expected to come back

Outcome = TypeVar("Outcome")


class RayExecutor:
    """Run batches as tasks of a Ray cluster.

    Parameters
    ----------
    address : str, optional
        Address of the cluster in Ray's notation: "auto" for the one of this machine, or "host:port". Without it and
        without RAY_ADDRESS in the environment a cluster of this machine alone is started, and ends with this process.
    device : str
        "cpu" or "cuda", on the machines of the cluster.
    cpus : int, optional
        Number of CPUs of a cluster that is started here; default: all of the machine.
    threads : int, optional
        Number of CPUs and of threads of a task, at most the CPUs of the largest machine; default: APGCN_THREADS or 1.

    Raises
    ------
    MissingPackage
        If Ray is not installed.
    NoCluster
        If no cluster answers at the address.
    MissingDevice
        If `device` is "cuda" and the cluster has no GPU.
    """

    workers = 1  # Ray divides the memory of a machine among its tasks

    def __init__(
        self,
        address: str | None = None,
        *,
        device: str = "cpu",
        cpus: int | None = None,
        threads: int | None = None,
    ):
        self._threads = requested_threads(threads) or 1
        self._ray = import_ray()
        self._device = parse_device(device).type
        if device not in ("cpu", "cuda"):
            raise InvalidInput(f"on a Ray cluster the device must be cpu or cuda, any of its GPUs, got {device}.")
        self._graphs: dict[str, Any] = {}
        self._estimates: dict[RunConfig, MemoryEstimate] = {}
        self._requested: dict[Any, dict[str, Any]] = {}  # resources of every task that is not done
        self._machine_seen = time.monotonic()  # when there was last a machine
        self._is_owner = connect(self._ray, address, cpus)
        self._head = HeadMonitor(self._ray.get_runtime_context().gcs_address)
        if self._device == "cuda" and not self._count("GPU"):
            self.close()
            raise MissingDevice("device cuda needs a GPU in the Ray cluster, but no machine of it has one; try cpu.")

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()
        if self._head.is_lost and kind is KeyboardInterrupt:
            raise NoCluster(self._head.message) from None

    def close(self) -> None:
        """Disconnect from the cluster, or end it if it was started here."""
        self._head.stop()
        if self._is_owner and not self._head.is_lost:
            self._ray.shutdown()

    def __str__(self) -> str:
        """Machines, CPUs and GPUs of the cluster."""
        machines = sum(node["Alive"] for node in self._ray.nodes())
        gpus = f", {pluralize(self._count('GPU'), 'GPU')}" if self._count("GPU") else ""
        return f"{pluralize(machines, 'machine')}, {pluralize(self._count('CPU'), 'CPU')}{gpus}"

    def call(self, function: Callable[..., Outcome], run_config: RunConfig, **arguments: Any) -> Outcome:
        """Call a function with a run configuration on the smallest machine, without waiting for a free CPU.

        The same task estimates the memory that run batches of the run configuration need there.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = self._nodes
        if not nodes:
            raise self._no_machine()
        smallest = min(nodes, key=lambda node: node["Resources"].get("memory", 0))
        task = self._ray.remote(run_task).options(
            num_cpus=0,
            num_gpus=1 / BATCHES_PER_GPU if self._device == "cuda" else 0,
            max_retries=RETRIES,
            scheduling_strategy=NodeAffinitySchedulingStrategy(smallest["NodeID"], soft=True),
        )
        task_arguments = {"function": function, "device": self._device, "arguments": arguments}
        try:
            result, self._estimates[run_config] = self._result(
                task.remote(*self._common_arguments(run_config), call_and_estimate, run_config, task_arguments)
            )
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"no machine of the Ray cluster answered ({first_line(error)}).") from None
        return result

    def run(
        self,
        function: Callable[[PlannedBatch, ReportProgress], Outcome],
        items: Iterable[PlannedBatch],
        on_progress: Callable[[PlannedBatch, float], None],
    ) -> Generator[tuple[PlannedBatch, Outcome], None, None]:
        """Call a function with every run batch; `on_progress` is called with the fraction that is done."""
        ray, waiting = self._ray, ((batch, 0) for batch in items)
        progress_actor = self._start_progress_actor()
        running: dict[Any, tuple[PlannedBatch, int]] = {}  # run batch and number of earlier attempts, by task
        retries: list[tuple[PlannedBatch, int]] = []  # the same, of tasks that have died
        try:
            while True:
                has_machines = self._has_machines()
                for task in self._oversized(running) if has_machines else ():
                    ray.cancel(task)
                    retries.append(running.pop(task))
                while has_machines and len(running) < self._max_running:
                    attempt = retries.pop() if retries else next(waiting, None)
                    if attempt is None:
                        break
                    running[self._submit(function, attempt[0], progress_actor)] = attempt
                if not running:
                    if has_machines:
                        return
                    time.sleep(POLL_SECONDS)
                    continue
                done, _ = ray.wait(list(running), timeout=POLL_SECONDS)
                for key, fraction in self._fractions(progress_actor).items():
                    for batch, _ in running.values():
                        if batch.key == key:
                            on_progress(batch, fraction)
                for task in done:
                    batch, attempts = running.pop(task)
                    try:
                        outcome = self._result(task)
                    except ray.exceptions.RayError as error:
                        if attempts == RETRIES:
                            raise WorkerDied(_all_attempts_died(batch, error)) from None
                        retries.append((batch, attempts + 1))
                    else:
                        yield batch, outcome
        finally:
            if not self._head.is_lost:
                for task in running:
                    ray.cancel(task, force=True)
                ray.kill(progress_actor)

    def _has_machines(self) -> bool:
        """Whether any machine can take a task; if none can, one may come back within `NO_MACHINE_SECONDS`."""
        if not is_reachable(self._head.address):  # calls of Ray would block
            return False
        if self._nodes:
            self._machine_seen = time.monotonic()
            return True
        if time.monotonic() - self._machine_seen > NO_MACHINE_SECONDS:
            raise self._no_machine()
        return False

    def _no_machine(self) -> NoCluster:
        return NoCluster(
            f"the Ray cluster must have a machine with a {self._resource}, but has none; finished runs are stored: "
            "when there is one, run the same command again to continue."
        )

    def _fractions(self, progress_actor: Any) -> dict[str, float]:
        """Progress of the tasks; empty if the actor is lost, which affects the progress bar only."""
        try:
            return self._ray.get(progress_actor.take.remote())
        except self._ray.exceptions.RayError:
            return {}

    @property
    def _max_running(self) -> int:
        """Number of tasks that are submitted: enough that no machine idles, and that an autoscaler sees the demand."""
        if self._device == "cuda":
            return max(4, 2 * BATCHES_PER_GPU * self._count("GPU"))
        return max(4, 2 * self._count("CPU") // self._threads_per_task)

    def _count(self, resource: str) -> int:
        return int(self._ray.cluster_resources().get(resource, 0))

    def _submit(self, function: Callable, batch: PlannedBatch, progress_actor: Any) -> Any:
        resources = self.resources_for(batch)
        remote = self._ray.remote(run_task).options(max_retries=0, **resources)
        arguments = {"function": function, "cpus": resources["num_cpus"], "progress_actor": progress_actor}
        task = remote.remote(*self._common_arguments(batch.run_config), train_with_progress, batch, arguments)
        self._requested[task] = resources
        return task

    def resources_for(self, batch: PlannedBatch) -> dict[str, Any]:
        """Resources of a task, as Ray names them; at most those of the largest machine, or it would never run."""
        estimate = self._estimate(batch.run_config)
        memory = estimate.shared + len(batch.runs) * estimate.per_run
        if self._device == "cuda":
            return {"num_cpus": 1, "num_gpus": gpu_fraction(memory, estimate.device)}
        return {
            "num_cpus": self._threads_per_task,
            "memory": min(memory + PROCESS_BYTES, self._largest("memory")),
        }

    def _oversized(self, running: Iterable[Any]) -> list[Any]:
        """Tasks that requested more memory or CPUs than any machine has now that a larger one is gone."""
        memory, cpus = self._largest("memory"), self._largest("CPU")
        self._requested = {task: self._requested[task] for task in running}
        return [
            task
            for task, resources in self._requested.items()
            if resources.get("memory", 0) > memory or resources["num_cpus"] > max(1, cpus)
        ]

    @property
    def _threads_per_task(self) -> int:
        return max(1, min(self._threads, self._largest("CPU")))

    def _largest(self, resource: str) -> int:
        """The most that any machine has of a resource; memory is in bytes."""
        return max((int(node["Resources"].get(resource, 0)) for node in self._nodes), default=0)

    @property
    def _nodes(self) -> list[dict[str, Any]]:
        """The machines that can take a task."""
        return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get(self._resource, 0) >= 1]

    @property
    def _resource(self) -> str:
        return "GPU" if self._device == "cuda" else "CPU"

    def _estimate(self, run_config: RunConfig) -> MemoryEstimate:
        if run_config not in self._estimates:
            self.call(estimate_memory, run_config, device=self._device)
        return self._estimates[run_config]

    def _common_arguments(self, run_config: RunConfig) -> tuple[str, str, Any]:
        """First arguments of every task: our version, the name of the graph, and the stored graph with its splits."""
        name = run_config.dataset
        if name not in self._graphs:
            self._graphs[name] = self._ray.put((cleaned_graph(name), file_splits(name)))
        return __version__, name, self._graphs[name]

    def _result(self, task: Any) -> Any:
        """Return value of a task; errors of its function are raised here."""
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if "No module named 'apgcn" in str(error):
                raise MissingPackage("every machine of the Ray cluster must have apgcn, but one does not.") from None
            raise RuntimeError(f"in a Ray task:\n{error}") from None
        if isinstance(outcome, UserError):
            raise ApgcnError(outcome.message)
        return outcome

    def _start_progress_actor(self) -> Any:
        """Start the progress actor on this machine, which lives as long as this process."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        this_node = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(ProgressActor).options(num_cpus=0, scheduling_strategy=this_node).remote()


def _all_attempts_died(batch: PlannedBatch, error: Exception) -> str:
    return (
        f"run batch {batch.key} must be trained in {RETRIES + 1} attempts, but its process or machine died in each "
        f"({first_line(error)}); finished runs are stored: check the cluster's memory and start again."
    )
