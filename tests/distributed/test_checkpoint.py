"""Checkpoints: a training that was killed is resumed, and ends as one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
from helpers.rank_processes import (
    MAIN,
    NO_DROPOUT,
    epochs_in,
    for_one_of_three_seeds,
    history,
    run_ranks,
    start,
    wait,
    wait_for_epochs,
)
from safetensors import safe_open
from safetensors.torch import save_file

from apgcn.cli import run
from apgcn.cli.distributed import checkpoint_path
from apgcn.distributed.checkpoint import _digest, check_complete, read_checkpoint, restore, resume, write_checkpoint
from apgcn.errors import BrokenFile
from apgcn.inference.bundle import load_model
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import benchmark_runs
from apgcn.training.trainer import BatchedTrainer

PAUSE = """
import time
from apgcn.distributed import checkpoint
checkpoint.WRITE_INTERVAL = 0.0
write = checkpoint.write_checkpoint
checkpoint.write_checkpoint = lambda *arguments: [write(*arguments), time.sleep(SECONDS)]
"""
PAUSE_AFTER_EVERY_EPOCH = PAUSE.replace("SECONDS", "0.1") + MAIN  # so that a training of few epochs can be killed


@pytest.mark.slow
def test_a_killed_rank_ends_the_others_and_the_training_can_be_resumed(archive, tmp_path):
    """One rank and then the other is killed: the resumed training is bit-identical to an uninterrupted one."""
    common = ["fit", "--graph", archive, "--set", "max_epochs=60", "--set", "patience=60", "--ensemble", "2"]
    run_ranks(2, [*common, "--out", tmp_path / "undisturbed"])
    out = tmp_path / "disturbed"
    checkpoint = checkpoint_path(out)
    for victim in (1, 0):
        processes = start(2, [*common, "--out", out], code=PAUSE_AFTER_EVERY_EPOCH)
        epochs = max(6, epochs_in(checkpoint) + 1)  # the halting unit has been trained
        wait_for_epochs(processes[1 - victim], checkpoint, epochs)
        processes[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        results = wait(processes)
        assert time.monotonic() - killed < 15
        status, _, stderr = results[1 - victim]
        assert status == 1
        (line,) = [line for line in stderr.splitlines() if line.startswith("apgcn:")]
        assert "one of them has ended" in line
        assert line.endswith("a checkpoint is kept: the same command continues from there.")
        assert "Traceback" not in stderr
        assert not out.exists()
        assert checkpoint.exists()
    results = run_ranks(2, [*common, "--out", out])
    assert "training resumes after" in results[0][2]
    assert not checkpoint.exists()
    one, other = (load_model(tmp_path / name).model for name in ("undisturbed", "disturbed"))
    assert other.metrics["epochs"] == one.metrics["epochs"]
    for name, weight in one.weights.items():
        np.testing.assert_array_equal(other.weights[name].numpy(), weight.numpy())


@pytest.mark.slow
def test_fewer_ranks_can_resume_a_training(tmp_path):
    """Without dropout they train what one uninterrupted process trains; their folder exists and is empty."""
    common = ["train", "cora", "--set", "max_epochs=40", "--set", "patience=40", *NO_DROPOUT]

    def compare(seed):
        undisturbed, out = tmp_path / f"undisturbed {seed}", tmp_path / f"disturbed {seed}"
        options = [*common, "--seed", str(seed)]
        assert run([*options, "--out", str(undisturbed)]) == 0
        out.mkdir()
        processes = start(2, [*options, "--out", out], code=PAUSE_AFTER_EVERY_EPOCH)
        wait_for_epochs(processes[0], checkpoint_path(out), 1)
        for process in processes:
            process.kill()
        wait(processes)
        assert [file.name for file in out.iterdir()] == [checkpoint_path(out).name]
        results = run_ranks(1, [*options, "--out", out])
        assert "training resumes after" in results[0][2]
        assert sorted(os.listdir(out)) == sorted(os.listdir(undisturbed))
        np.testing.assert_allclose(history(out)[:, :2], history(undisturbed)[:, :2], atol=1e-4)

    for_one_of_three_seeds(compare)


def test_a_run_batch_of_which_some_runs_have_finished_is_resumed(cora, tmp_path):
    """In one process: each run finishes at its own epoch, before the checkpoint or after it."""
    graph, runs = DeviceGraph.from_graph(cora), benchmark_runs(cora, 4)
    arguments = graph, runs, APGCNConfig(hidden_channels=8), TrainingConfig(max_epochs=60, patience=4)
    uninterrupted = BatchedTrainer(*arguments)
    while uninterrupted.has_active_runs:
        uninterrupted.train_epoch()
        if len(uninterrupted.active_runs) < 4 and not (tmp_path / "c").exists():
            write_checkpoint(tmp_path / "c", uninterrupted, {"a": 1})
    assert len(set(uninterrupted.finished_epochs[1].tolist())) > 1
    state, epochs = read_checkpoint(tmp_path / "c", {"a": 1})
    content = bytearray((tmp_path / "c").read_bytes())
    content[-5] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"must be a checkpoint, but cannot be read \(it is damaged\); remove it"):
        read_checkpoint(tmp_path / "damaged", {"a": 1})
    assert 0 < len(state["active_runs"]) < 4
    resumed = BatchedTrainer(*arguments)
    restore(resumed, state, epochs)
    while resumed.has_active_runs:
        resumed.train_epoch()
    for expected, actual in zip(uninterrupted.results(), resumed.results(), strict=True):
        np.testing.assert_array_equal(actual.logits, expected.logits)
        np.testing.assert_array_equal(actual.history.stopping_loss, expected.history.stopping_loss)
        assert (actual.best_epoch, actual.epochs) == (expected.best_epoch, expected.epochs)


def test_a_checkpoint_of_version_0_1_is_refused(cora, tmp_path):
    """It has the facts of the training, the epochs and a digest, but no format number."""
    trainer = BatchedTrainer(
        DeviceGraph.from_graph(cora), benchmark_runs(cora, 1), APGCNConfig(hidden_channels=8), TrainingConfig()
    )
    trainer.train_epoch()
    write_checkpoint(tmp_path / "new", trainer, {"a": 1})
    with safe_open(tmp_path / "new", framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata = {"facts": '{"a": 1}', "epochs": "1"}
    save_file(state, tmp_path / "old", {**metadata, "digest": _digest(state, metadata)})
    with pytest.raises(BrokenFile, match=r"must be a checkpoint of format 2, but another version of apgcn wrote it"):
        read_checkpoint(tmp_path / "old", {"a": 1})


class FirstRank:
    rank = 0

    def run_collectively(self, function):
        return function()


@pytest.mark.parametrize("lost", ["active_runs", "weights.", "history", ""])
def test_a_checkpoint_without_some_tensors_is_refused(cora, tmp_path, lost):
    """Its digest is right: another program wrote it."""
    trainer = BatchedTrainer(
        DeviceGraph.from_graph(cora), benchmark_runs(cora, 1), APGCNConfig(hidden_channels=2), TrainingConfig()
    )
    trainer.train_epoch()
    write_checkpoint(tmp_path / "c", trainer, {"a": 1})
    check_complete(tmp_path / "c", read_checkpoint(tmp_path / "c", {"a": 1})[0], trainer)
    with safe_open(tmp_path / "c", framework="pt") as file:
        metadata = file.metadata()
        state = {name: file.get_tensor(name) for name in file.keys() if not name.startswith(lost)}  # noqa: SIM118
    del metadata["digest"]
    save_file(state, tmp_path / "c", {**metadata, "digest": _digest(state, metadata)})
    with pytest.raises(BrokenFile, match=f"must be a checkpoint, but lacks '.*{lost}.*; remove it"):
        resume(FirstRank(), trainer, tmp_path / "c", {"a": 1})


@pytest.mark.slow
def test_a_checkpoint_of_another_training_is_refused(archive, tmp_path):
    out = tmp_path / "m"
    long_training = ["--set", "max_epochs=5000", "--set", "patience=5000"]
    processes = start(2, ["fit", "--graph", archive, "--out", out, *long_training])
    deadline = time.monotonic() + 120
    while not checkpoint_path(out).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for process in processes:
        process.kill()
    wait(processes)
    for options, sentence in (
        (["--penalty", "0.3"], "must be of the same training, but the model differs; remove it"),
        ([*long_training, "--test-size", "0.3"], "but the split differs"),
    ):
        results = wait(start(2, ["fit", "--graph", archive, "--out", out, *options]))
        assert [status for status, _, _ in results] == [2, 2]
        assert sentence in results[0][2]
        assert results[1][2] == ""
    checkpoint_path(out).write_bytes(b"no checkpoint")
    with pytest.raises(BrokenFile, match="must be a checkpoint"):
        read_checkpoint(checkpoint_path(out), {})


@pytest.mark.slow
def test_torchrun_restarts_ranks_which_resume(tmp_path):
    """A rank is killed: with --max-restarts the training continues by itself, and ends as an undisturbed one."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    first_start = """if __import__("os").environ["TORCHELASTIC_RESTART_COUNT"] == "0":"""
    program = tmp_path / "program.py"
    program.write_text(f"{first_start}\n{indent(PAUSE.replace('SECONDS', '60'), '    ')}\n{MAIN}")
    train = ["train", "cora", "--distributed", "--set", "max_epochs=30", "--set", "patience=30"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    once = [*torchrun, "-m", "apgcn", *train, "--out", str(tmp_path / "m")]
    subprocess.run(once, check=True, timeout=240, env=environment)
    command = [*torchrun, "--max-restarts", "2", str(program), *train, "--out", str(tmp_path / "again")]
    process = subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for_epochs(process, checkpoint_path(tmp_path / "again"), 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr
    assert "training resumes after" in stderr
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("m", "again")]
    assert [summary["ranks"] for summary in summaries] == [2, 2]
    with np.load(tmp_path / "m" / "nodes.npz") as one, np.load(tmp_path / "again" / "nodes.npz") as other:
        np.testing.assert_array_equal(other["logits"], one["logits"])
