"""Runs on a Ray cluster give the records of this machine, whichever process or machine dies meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from helpers import ROOT, TESTS
from helpers.fake_records import results_without_times

from apgcn import __version__
from apgcn.benchmark import config as run_configs
from apgcn.benchmark import ray_executor
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.ray_executor import RayExecutor
from apgcn.benchmark.ray_tasks import estimate_memory
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.runner import NullProgress, run_plan
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.errors import ApgcnError, MissingDevice, MissingPackage, WorkerDied

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


BATCHES = 8


def run_config(number, **overrides):
    """Of one width, for which kernels are compiled once."""
    return RunConfig.from_preset("cora", "apgcn", hidden_channels=8, penalty=0.001 * (number + 1), **overrides)


def plan():
    """Run batches of two runs, of about half a second each."""
    return [key for number in range(BATCHES) for key in run_config(number, max_epochs=80, patience=80).first_runs(2)]


def make_batch(number):
    return PlannedBatch.from_keys(run_config(number).first_runs(1), "cpu")


def kill_itself(batch, report):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_once(batch, report, *, folder):
    """The first attempt ends as if the machine had no memory left."""
    mark = folder / batch.key
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    report(0.5)
    return batch.key


def raise_user_error(batch, report):
    raise ApgcnError("penalty must be >= 0, got -1.")


def raise_exception(batch, report):
    raise ZeroDivisionError("in the middle of work")


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs and two machines with one each, all of them on this machine."""
    folders = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join((str(TESTS), str(ROOT), folders))  # with the functions of the tasks
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": {"health_check_period_ms": 500}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.workers = [cluster.add_node(num_cpus=1) for _ in range(2)]
    os.environ["PYTHONPATH"] = folders
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def executor(cluster):
    with RayExecutor(cluster.address) as executor:
        yield executor


@pytest.mark.slow
def test_task_that_dies_is_submitted_again(executor, tmp_path):
    items = [make_batch(number) for number in range(2)]
    outcomes = list(executor.run(partial(kill_itself_once, folder=tmp_path), items, lambda batch, fraction: None))
    assert sorted((batch.key, outcome) for batch, outcome in outcomes) == sorted(
        (batch.key, batch.key) for batch in items
    )


@pytest.mark.slow
def test_task_that_dies_in_every_attempt_is_reported_with_its_key(executor, monkeypatch):
    monkeypatch.setattr(ray_executor, "RETRIES", 1)
    with pytest.raises(
        WorkerDied, match=rf"run batch {make_batch(0).key} must be trained in 2 attempts, but its process"
    ):
        list(executor.run(kill_itself, [make_batch(0)], lambda batch, fraction: None))


@pytest.mark.slow
def test_user_error_is_one_sentence_and_an_exception_has_a_traceback(executor):
    with pytest.raises(ApgcnError, match=r"^penalty must be >= 0, got -1\.$"):
        list(executor.run(raise_user_error, [make_batch(0)], lambda batch, fraction: None))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: in the middle of work"):
        list(executor.run(raise_exception, [make_batch(0)], lambda batch, fraction: None))


@pytest.mark.slow
def test_other_version_of_apgcn_is_reported(executor, monkeypatch):
    monkeypatch.setattr(ray_executor, "__version__", "9.9")  # here, not on the machines
    with pytest.raises(ApgcnError, match=rf"must have apgcn 9\.9, but .* has {__version__}; install the same there"):
        list(executor.run(raise_user_error, [make_batch(0)], lambda batch, fraction: None))


@pytest.mark.slow
def test_machine_without_apgcn_is_reported(executor, monkeypatch):
    """A module of this process alone: on the machines it is as if it, or all of apgcn, were not installed."""
    later = types.ModuleType("apgcn.later")
    exec("def work(*arguments):\n    return 1", vars(later))
    monkeypatch.setitem(sys.modules, "apgcn.later", later)
    with pytest.raises(MissingPackage, match="every machine of the Ray cluster must have apgcn"):
        list(executor.run(later.work, [make_batch(0)], lambda batch, fraction: None))
    monkeypatch.setattr(ray_executor, "run_task", later.work)
    with pytest.raises(MissingPackage, match="every machine of the Ray cluster must have apgcn"):
        list(executor.run(raise_user_error, [make_batch(0)], lambda batch, fraction: None))


@pytest.mark.slow
def test_cluster_without_gpu_refuses_cuda(cluster):
    with pytest.raises(MissingDevice, match="needs a GPU in the Ray cluster"):
        RayExecutor(cluster.address, device="cuda")


@pytest.mark.slow
def test_tasks_request_the_estimated_memory_of_their_batches(cluster):
    with RayExecutor(cluster.address) as executor:
        one, three = (
            executor.resources_for(
                PlannedBatch.from_keys(RunConfig.from_preset("cora", "apgcn").first_runs(runs), "cpu")
            )
            for runs in (1, 3)
        )
        estimate = estimate_memory(RunConfig.from_preset("cora", "apgcn"), device="cpu")
        assert one == {"num_cpus": 1, "memory": ray_executor.PROCESS_BYTES + estimate.shared + estimate.per_run}
        assert three["memory"] - one["memory"] == 2 * estimate.per_run


@pytest.mark.slow
def test_task_that_no_machine_can_run_any_more_requests_less_memory(executor, tmp_path, monkeypatch):
    """As if a larger machine had existed when the task was submitted first."""
    resources_for, requests = RayExecutor.resources_for, []

    def oversized_at_first(self, batch):
        requests.append(batch.key)
        return {**resources_for(self, batch), **({"memory": 2**44} if len(requests) == 1 else {})}

    monkeypatch.setattr(RayExecutor, "resources_for", oversized_at_first)
    (tmp_path / make_batch(0).key).touch()  # so that it does not die
    ((batch, _),) = executor.run(
        partial(kill_itself_once, folder=tmp_path), [make_batch(0)], lambda batch, fraction: None
    )
    assert requests == [batch.key, batch.key]


def wait_for_one_cpu(executor):
    """A head probes its machines every few seconds: the work may be done before it notices the loss of one."""
    until = time.monotonic() + 60
    while not str(executor).endswith(", 1 CPU"):
        assert time.monotonic() < until, str(executor)
        time.sleep(0.1)


@pytest.mark.slow
def test_records_are_the_same_after_a_machine_dies(cluster, tmp_path):
    """One of two is removed when two run batches are done; the records are those of this process alone."""
    run_plan(Store(tmp_path / "here"), plan(), command="test")
    finished, fractions = [], []

    class RemoveMachine(NullProgress):
        def on_progress(self, batch, fraction):
            fractions.append(fraction)

        def on_finished(self, batch):
            finished.append(batch.key)
            if len(finished) == 2:
                cluster.remove_node(cluster.workers.pop(), allow_graceful=False)

    with RayExecutor(cluster.address) as executor:
        assert "2 CPUs" in str(executor)
        run_plan(Store(tmp_path / "there"), plan(), executor=executor, command="test", progress=RemoveMachine())
        wait_for_one_cpu(executor)
    assert not cluster.workers[1:]
    assert len(finished) == BATCHES
    assert any(0 < fraction < 1 for fraction in fractions)
    assert results_without_times(tmp_path / "there") == results_without_times(tmp_path / "here")


@pytest.fixture
def few_epochs(monkeypatch):
    """Of every training that this process plans."""
    preset_config = partial(run_configs.preset_config, hidden_channels=8, max_epochs=20)
    monkeypatch.setattr(run_configs, "preset_config", preset_config)


@pytest.mark.slow
def test_without_an_address_a_cluster_is_started_and_ended(few_epochs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    trials = ["--search", "penalty", "--trials", "1", "--runs", "1"]
    ours = ["--executor", "ray", "--workers", "1", "--json"]
    assert run(["tune", "cora", "--store", str(tmp_path / "s"), *trials, *ours]) == 0
    assert "Ray: 1 machine, 1 CPU" in capsys.readouterr().err
    assert not ray.is_initialized()
    assert len(Store(tmp_path / "s").records) == 2


PAUSE_AFTER_THE_FIRST_RECORDS = """
import time
from functools import partial

from apgcn.benchmark import config
from apgcn.benchmark.store import Store
from apgcn.cli import main

config.preset_config = partial(config.preset_config, hidden_channels=8, max_epochs=20)
add_records = Store.add_records
Store.add_records = lambda *arguments: [add_records(*arguments), time.sleep(120)]
main()
"""


def wait_for_records(driver, store):
    until = time.monotonic() + 180
    while not (store / "runs.jsonl").exists():
        assert time.monotonic() < until
        assert driver.poll() is None
        time.sleep(0.05)


@pytest.mark.slow
def test_driver_that_dies_continues_from_its_store(few_epochs, tmp_path):
    """It is killed after its first records; the cluster that it had started ends with it."""
    here, there = tmp_path / "here", tmp_path / "there"
    command = ["reproduce", "figure4", "--datasets", "cora", "--models", "apgcn", "--runs", "1"]
    assert run([*command, "--store", str(here)]) == 0
    ours = [*command, "--store", str(there), "--executor", "ray", "--workers", "1"]
    driver = subprocess.Popen(
        [sys.executable, "-c", PAUSE_AFTER_THE_FIRST_RECORDS, *ours],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_records(driver, there)
    driver.kill()
    driver.wait()
    before = set(Store(there).records)
    assert 0 < len(before) < len(Store(here).records)
    assert run(ours) == 0
    found, expected = (
        {key: {**line, "command": None} for key, line in results_without_times(folder).items()}
        for folder in (there, here)
    )
    assert found == expected


LOST_SOON = """
from apgcn.benchmark import ray_cluster
from apgcn.cli import main

ray_cluster.PROBE_SECONDS, ray_cluster.HEAD_LOST_SECONDS = 0.5, 5.0
main()
"""


@pytest.mark.slow
def test_lost_head_is_reported_and_the_store_stays(tmp_path):
    """In a process of its own, which must end by itself: Ray would wait for the head, and then abort."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.wait_for_nodes()
    store = tmp_path / "s"
    command = ["reproduce", "figure4", "--datasets", "cora", "--models", "apgcn", "--runs", "1", "--store", str(store)]
    driver = subprocess.Popen(
        [sys.executable, "-c", LOST_SOON, *command, "--executor", "ray", "--address", cluster.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for_records(driver, store)
        cluster.head_node.kill_gcs_server()
        _, stderr = driver.communicate(timeout=90)
    finally:
        driver.kill()
        cluster.shutdown()
    assert driver.returncode == 2, stderr
    assert "the head of the Ray cluster" in stderr.splitlines()[-1]
    assert "run the same command again to continue" in stderr.splitlines()[-1]
    assert Store(store).records


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--executor", "ray", "--address", "127.0.0.1:PORT"], "there must be a Ray cluster at 127.0.0.1:"),
        (["--executor", "ray", "--address", "127.0.0.1:x"], "--address must be auto or host:port, got '127.0.0.1:x'"),
        (["--executor", "ray", "--address", "nonsense"], "--address must be auto or host:port, got 'nonsense'"),
        (["--executor", "spark"], "unknown executor 'spark'; known: local, ray."),
        (["--address", "auto"], "--address must come with --executor ray"),
        (
            ["--executor", "ray", "--address", "auto", "--workers", "2"],
            "--workers must not come with the address of a cluster (auto)",
        ),
        (["--executor", "ray", "--device", "cuda:1"], "on a Ray cluster the device must be cpu or cuda"),
        (["--executor", "ray", "--device", "tpu"], "device must be cpu, cuda or cuda:N, got 'tpu'"),
    ],
)
def test_invalid_options_are_reported_in_one_sentence(options, sentence, tmp_path, capsys):
    port = str(free_port())
    options = [option.replace("PORT", port) for option in options]
    command = ["reproduce", "table2", "--datasets", "cora", "--store", str(tmp_path / "s"), "--runs", "1", *options]
    assert run(command) == 2
    stderr = capsys.readouterr().err.strip()
    assert sentence in stderr
    assert "\n" not in stderr
    assert not (tmp_path / "s").exists()


def test_missing_package_is_reported_with_the_command_that_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    tune = ["tune", "cora", "--store", str(tmp_path / "s"), "--executor", "ray"]
    assert run(tune) == 2
    assert 'needs Ray: pip install "apgcn[ray]"' in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run(tune) == 2
    assert 'tuning needs optuna: pip install "apgcn[tune]"' in capsys.readouterr().err  # before a cluster is started


@pytest.mark.slow
def test_missing_token_is_reported(cluster, tmp_path):
    command = ["-m", "apgcn", "tune", "cora", "--store", str(tmp_path / "s"), "--executor", "ray"]
    found = subprocess.run(
        [sys.executable, *command, "--address", cluster.address],
        env={**os.environ, "RAY_AUTH_MODE": "token", "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    (line,) = found.stderr.splitlines()
    assert "it may need RAY_AUTH_MODE=token and the token" in line


def test_server_that_is_not_a_cluster_is_reported(tmp_path, capsys):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        assert run(["reproduce", "table2", "--store", str(tmp_path), "--executor", "ray", "--address", address]) == 2
    (message,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("apgcn: ")]  # not its log
    assert "but the server there refuses the connection (it does not speak gRPC)" in message


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}  # as Linux writes them

PRINT_LISTENING_ADDRESSES = """
import os
from pathlib import Path

from apgcn.benchmark.ray_executor import RayExecutor


def descendants(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield child
            yield from descendants(child)


with RayExecutor(None, cpus=1) as executor:
    assert executor._ray.get(executor._ray.remote(lambda: os.getpid()).remote()) != os.getpid()
    sockets = {
        os.readlink(file)
        for pid in (os.getpid(), *descendants(os.getpid()))
        for file in Path(f"/proc/{pid}/fd").iterdir()
        if file.is_symlink()
    }
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                print(fields[1].partition(":")[0])
    assert os.environ["RAY_AUTH_MODE"] == "token"
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cluster_of_this_machine_binds_to_the_loopback_address_alone_and_requires_a_token(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", PRINT_LISTENING_ADDRESSES],
        env={**os.environ, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    addresses = found.stdout.split()
    assert len(addresses) > 3
    assert set(addresses) <= LOOPBACK
    assert (tmp_path / ".ray" / "auth_token").is_file()


def test_a_local_cluster_without_tokens_is_refused_before_it_is_started(monkeypatch):
    monkeypatch.setattr(ray, "__version__", "2.58.1")
    monkeypatch.setattr(ray, "init", lambda **options: pytest.fail("it was started"))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(
        MissingPackage, match=r"without --address needs Ray 2\.59 or later, .* token, got 2\.58\.1: pip"
    ):
        RayExecutor(None, cpus=1)
