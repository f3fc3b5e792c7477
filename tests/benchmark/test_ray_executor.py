"""A Ray cluster gives the records that this machine gives, whatever dies on the way."""

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
from helpers import TESTS
from helpers.fake_records import results

from apgcn import __version__
from apgcn.benchmark import ray_executor
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.ray_executor import RayExecutor
from apgcn.benchmark.ray_tasks import need_of
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.runner import NullProgress, fill
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.errors import ApgcnError, MissingDevice, MissingPackage, WorkerDied

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def plan():
    """Twelve packs of two runs, of about a second each."""
    conditions = [
        RunConfig.from_preset("cora", "apgcn", hidden_channels=8 + number, max_epochs=40) for number in range(12)
    ]
    return [key for run_config in conditions for key in run_config.first_runs(2)]


def pack_of(number):
    return PlannedBatch.of(RunConfig.from_preset("cora", "apgcn", hidden_channels=8 + number).first_runs(1), "cpu")


def dying(pack, report):
    os.kill(os.getpid(), signal.SIGKILL)


def dying_once(pack, report, *, folder):
    """The first attempt ends as if the machine had no memory left."""
    mark = folder / pack.key
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    report(0.5)
    return pack.key


def mistaken(pack, report):
    raise ApgcnError("penalty must be >= 0, got -1.")


def failing(pack, report):
    raise ZeroDivisionError("in the middle of work")


@pytest.fixture(scope="module")
def cluster():
    """A head that does not work and two machines that do, all of them on this one."""
    folders = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{TESTS}{os.pathsep}{folders}"  # where what tasks do is found
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1) for _ in range(2)]
    os.environ["PYTHONPATH"] = folders
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def executor(cluster):
    with RayExecutor(cluster.address) as made:
        yield made


def test_a_task_that_dies_is_tried_again(executor, tmp_path):
    items = [pack_of(number) for number in range(3)]
    outcomes = list(executor.run(partial(dying_once, folder=tmp_path), items, lambda pack, share: None))
    assert sorted((pack.key, outcome) for pack, outcome in outcomes) == sorted((pack.key, pack.key) for pack in items)


def test_a_task_that_dies_every_time_is_reported_with_its_key(executor):
    with pytest.raises(WorkerDied, match=rf"pack {pack_of(0).key} must be trained in 4 attempts, but its process"):
        list(executor.run(dying, [pack_of(0)], lambda pack, share: None))


def test_a_mistake_is_one_sentence_and_a_failure_is_not(executor):
    with pytest.raises(ApgcnError, match=r"^penalty must be >= 0, got -1\.$"):
        list(executor.run(mistaken, [pack_of(0)], lambda pack, share: None))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: in the middle of work"):
        list(executor.run(failing, [pack_of(0)], lambda pack, share: None))


def test_another_version_of_apgcn_is_said(executor, monkeypatch):
    monkeypatch.setattr(ray_executor, "__version__", "9.9")  # here, not there
    with pytest.raises(ApgcnError, match=rf"must have apgcn 9\.9, but .* has {__version__}; install the same there"):
        list(executor.run(mistaken, [pack_of(0)], lambda pack, share: None))


def test_a_machine_that_lacks_apgcn_is_said(executor, monkeypatch):
    """A module of this process alone: there it is as if it, or all of apgcn, were not installed."""
    later = types.ModuleType("apgcn.later")
    exec("def work(*given):\n    return 1", vars(later))
    monkeypatch.setitem(sys.modules, "apgcn.later", later)
    with pytest.raises(MissingPackage, match="every machine of the Ray cluster must have apgcn"):
        list(executor.run(later.work, [pack_of(0)], lambda pack, share: None))
    monkeypatch.setattr(ray_executor, "there", later.work)
    with pytest.raises(MissingPackage, match="every machine of the Ray cluster must have apgcn"):
        list(executor.run(mistaken, [pack_of(0)], lambda pack, share: None))


def test_a_cluster_without_gpu_has_none(cluster):
    with pytest.raises(MissingDevice, match="needs a GPU in the Ray cluster"):
        RayExecutor(cluster.address, device="cuda")


def test_tasks_ask_for_what_their_packs_are_estimated_to_need(cluster):
    with RayExecutor(cluster.address) as executor:
        one, three = (
            executor.request(PlannedBatch.of(RunConfig.from_preset("cora", "apgcn").first_runs(runs), "cpu"))
            for runs in (1, 3)
        )
        need = need_of(RunConfig.from_preset("cora", "apgcn"), device="cpu")
        assert one == {"num_cpus": 1, "memory": ray_executor.PROCESS + need.shared + need.per_run}
        assert three["memory"] - one["memory"] == 2 * need.per_run


def test_a_task_that_no_machine_can_take_any_more_asks_for_less(executor, tmp_path, monkeypatch):
    """As if a larger machine had been there when the first was given out."""
    usual, asked = RayExecutor.request, []

    def request(self, pack):
        asked.append(pack.key)
        return {**usual(self, pack), **({"memory": 2**44} if len(asked) == 1 else {})}

    monkeypatch.setattr(RayExecutor, "request", request)
    (tmp_path / pack_of(0).key).touch()  # nobody dies
    ((pack, _),) = executor.run(partial(dying_once, folder=tmp_path), [pack_of(0)], lambda pack, share: None)
    assert asked == [pack.key, pack.key]


def wait_for_one_processor(executor):
    """A head asks its machines every few seconds: the work may be done before it misses one."""
    until = time.monotonic() + 60
    while not str(executor).endswith(", 1 processor"):
        assert time.monotonic() < until, str(executor)
        time.sleep(0.1)


def test_a_machine_that_dies_changes_nothing(cluster, tmp_path):
    """One of two is taken away when three packs are done; the records are those of this process alone."""
    fill(Store(tmp_path / "here"), plan(), command="test")
    finished, heard = [], []

    class Watch(NullProgress):
        def progress(self, pack, share):
            heard.append(share)

        def finished(self, pack):
            finished.append(pack.key)
            if len(finished) == 3:
                cluster.remove_node(cluster.workers.pop(), allow_graceful=False)

    with RayExecutor(cluster.address) as executor:
        assert "2 processors" in str(executor)
        fill(Store(tmp_path / "there"), plan(), executor=executor, command="test", watch=Watch())
        wait_for_one_processor(executor)
    assert not cluster.workers[1:]
    assert len(finished) == 12
    assert any(0 < share < 1 for share in heard)
    assert results(tmp_path / "there") == results(tmp_path / "here")


def test_without_a_cluster_one_is_started_and_ended(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    trials = ["--search", "penalty", "--trials", "1", "--runs", "1"]
    ours = ["--executor", "ray", "--workers", "1", "--json"]
    assert run(["tune", "cora", "--store", str(tmp_path / "s"), *trials, *ours]) == 0
    assert "Ray: 1 machine, 1 processor" in capsys.readouterr().err
    assert not ray.is_initialized()
    assert len(Store(tmp_path / "s").records) == 2


def wait_for_records(driver, store):
    until = time.monotonic() + 180
    while not (store / "runs.jsonl").exists():
        assert time.monotonic() < until
        assert driver.poll() is None
        time.sleep(0.05)


def test_a_driver_that_dies_goes_on_from_its_store(tmp_path):
    """Killed when its first records are there; the cluster that it had started ends with it."""
    here, there = tmp_path / "here", tmp_path / "there"
    command = ["reproduce", "figure4", "--datasets", "cora", "--models", "apgcn", "--runs", "1"]
    assert run([*command, "--store", str(here)]) == 0
    ours = [*command, "--store", str(there), "--executor", "ray", "--workers", "1"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "apgcn", *ours], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for_records(driver, there)
    driver.kill()
    driver.wait()
    before = set(Store(there).records)
    assert 0 < len(before) < len(Store(here).records)
    assert run(ours) == 0
    found, expected = (
        {key: {**line, "command": None} for key, line in results(folder).items()} for folder in (there, here)
    )
    assert found == expected


def test_a_cluster_whose_head_dies_is_said_and_the_store_stays(tmp_path):
    """In a process of its own, which must end by itself: Ray would wait for the head, and then abort."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.wait_for_nodes()
    store = tmp_path / "s"
    command = ["reproduce", "figure4", "--datasets", "cora", "--models", "apgcn", "--runs", "1", "--store", str(store)]
    driver = subprocess.Popen(
        [sys.executable, "-m", "apgcn", *command, "--executor", "ray", "--address", made.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for_records(driver, store)
        made.head_node.kill_gcs_server()
        _, told = driver.communicate(timeout=90)
    finally:
        driver.kill()
        made.shutdown()
    assert driver.returncode == 2, told
    assert "the head of the Ray cluster" in told.splitlines()[-1]
    assert "the same command goes on" in told.splitlines()[-1]
    assert Store(store).records


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


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
            "--workers must not come with a cluster's address",
        ),
        (["--executor", "ray", "--device", "cuda:1"], "on a Ray cluster the device must be cpu or cuda"),
        (["--executor", "ray", "--device", "tpu"], "device must be cpu, cuda or cuda:N, got 'tpu'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(options, sentence, tmp_path, capsys):
    port = str(free_port())
    options = [option.replace("PORT", port) for option in options]
    command = ["reproduce", "table2", "--datasets", "cora", "--store", str(tmp_path / "s"), "--runs", "1", *options]
    assert run(command) == 2
    told = capsys.readouterr().err.strip()
    assert sentence in told
    assert "\n" not in told
    assert not (tmp_path / "s").exists()


def test_without_ray_it_is_said_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    tune = ["tune", "cora", "--store", str(tmp_path / "s"), "--executor", "ray"]
    assert run(tune) == 2
    assert 'needs Ray: pip install "apgcn[ray]"' in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run(tune) == 2
    assert 'tuning needs optuna: pip install "apgcn[tune]"' in capsys.readouterr().err  # before a cluster is sought


def test_a_token_that_is_missing_is_said(cluster, tmp_path):
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
    assert "it may want RAY_AUTH_MODE=token and the token" in line


def test_somebody_else_who_listens_there_is_no_cluster(tmp_path, capsys):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{other.server_port}"
        assert run(["reproduce", "table2", "--store", str(tmp_path), "--executor", "ray", "--address", address]) == 2
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("apgcn: ")]  # not its log
    assert "but who listens there does not talk with us (it does not speak gRPC)" in told
