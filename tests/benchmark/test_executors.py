"""The number of threads that each executor chooses for its items."""

import pytest

from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor
from apgcn.benchmark.ray_tasks import train_with_progress
from apgcn.errors import InvalidInput
from apgcn.ops.threads import get_num_threads, resolve_threads


@pytest.fixture(autouse=True)
def six_cores(monkeypatch):
    for name in ("APGCN_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("apgcn.ops.threads.available_cores", lambda: 6)


def threads_of_item(item, report):
    """What kernels use there, what a nested training would choose, and what PyTorch uses."""
    import torch

    return get_num_threads(), resolve_threads(), torch.get_num_threads()


def numbers(executor):
    return [outcome for _, outcome in executor.run(threads_of_item, [1, 2], lambda item, fraction: None)]


def test_one_process_uses_all_cores():
    assert numbers(SerialExecutor()) == [(6, 6, 1)] * 2
    assert numbers(SerialExecutor(threads=2)) == [(2, 2, 1)] * 2
    assert get_num_threads() == 1


def test_worker_processes_share_the_cores(monkeypatch):
    assert numbers(ProcessExecutor(2)) == [(3, 3, 1)] * 2
    assert numbers(ProcessExecutor(2, threads=1)) == [(1, 1, 1)] * 2
    monkeypatch.setenv("APGCN_THREADS", "2")
    assert numbers(ProcessExecutor(2)) == [(2, 2, 1)] * 2
    monkeypatch.setenv("APGCN_THREADS", "0")
    with pytest.raises(InvalidInput, match="APGCN_THREADS must be an integer >= 1, got '0'"):
        numbers(ProcessExecutor(2))


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (4, 4), (100, 6)])
def test_a_ray_task_uses_a_thread_for_each_of_its_cpus(cpus, threads, monkeypatch):
    monkeypatch.setenv("APGCN_THREADS", "5")  # on the machine of the task, where it does not count
    outcome = train_with_progress(None, function=threads_of_item, cpus=cpus, progress_actor=None)
    assert outcome == (threads, threads, 1)
