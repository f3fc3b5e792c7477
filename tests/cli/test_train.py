"""`apgcn train`, `datasets` and the help: printed output, written files, and one sentence for a mistake."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.processes import shell_status
from safetensors.torch import load_file

from apgcn import APGCNConfig, DeviceGraph, RandomStream
from apgcn._utils.atomic import _umask, new_folder
from apgcn._utils.formatting import format_duration
from apgcn.cli import run
from apgcn.cli.render import histogram
from apgcn.data import published_splits
from apgcn.errors import InvalidInput

QUICK = ("train", "cora", "--max-steps", "2")


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    """Three epochs instead of a thousand: the command is tested here, not the training."""
    from apgcn.training import batching

    train_runs = batching.train_runs
    monkeypatch.setattr(
        batching,
        "train_runs",
        lambda graph, runs, model, training, **rest: train_runs(
            graph, runs, model, replace(training, max_epochs=3), **rest
        ),
    )


def test_json_is_one_object_and_nothing_else(capsys):
    assert run([*QUICK, "--runs", "2", "--penalty", "0.07", "--seed", "5", "--json"]) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert printed.out.count("\n") == 1
    assert (summary["dataset"], summary["model"], summary["runs"]) == ("cora", "apgcn", 2)
    assert summary["hyperparameters"]["penalty"] == 0.07
    assert [line["init"] for line in summary["each_run"]] == [5, 5]
    assert len(summary["steps_histogram"]) == summary["hyperparameters"]["max_steps"] == 2
    assert sum(summary["steps_histogram"]) == 2 * 2485
    mean = np.mean([line["test_accuracy"] for line in summary["each_run"]])
    assert summary["accuracy_mean"] == pytest.approx(mean)
    spread = np.ptp([line["test_accuracy"] for line in summary["each_run"]])
    assert summary["accuracy_ci95"] == pytest.approx(spread / 2)  # of two values the bootstrap reaches both
    assert summary["epochs_mean"] == 3
    assert summary["seconds"] > 0


def test_the_terminal_shows_accuracy_steps_time_and_next_commands(capsys):
    assert run(["train", "cora", "--set", "l2=0.1"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "accuracy on test nodes",
        "steps K",
        "K = 10 |",
        "time",
        "hyperparameters penalty=0.005, max_steps=10, l2=0.1, others from preset 'paper'",
    ):
        assert part in shown
    for part in ("what to type next", "train cora --set l2=0.1 --penalty 0.05", "train cora --set l2=0.1 --runs 20"):
        assert part in shown
    assert "±" not in shown  # one run has no interval


def test_out_holds_everything(tmp_path, capsys, cora):
    folder = tmp_path / "deep" / "result"
    assert run([*QUICK, "--runs", "2", "--out", str(folder), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert sorted(os.listdir(folder)) == ["history.csv", "nodes.npz", "summary.json", "weights.safetensors"]
    assert os.listdir(folder.parent) == ["result"]
    with np.load(folder / "nodes.npz", allow_pickle=False) as nodes:
        assert nodes["logits"].shape == (2, 2485, 7)
        assert nodes["steps"].shape == nodes["remainder"].shape == (2, 2485)
        assert nodes["steps"].mean() == pytest.approx(summary["steps_mean"])
        tested = nodes["sets"] == nodes["set_names"].tolist().index("test")
        right = (nodes["logits"].argmax(-1) == nodes["labels"])[tested].mean()  # equally many in both runs
        assert right == pytest.approx(summary["accuracy_mean"])
        device_graph = DeviceGraph.from_graph(cora)
        batched_model = APGCNConfig(max_steps=2).build(device_graph, RandomStream([0, 0]))
        batched_model.load_state_dict(load_file(folder / "weights.safetensors"))
        with torch.no_grad():
            np.testing.assert_allclose(
                batched_model(device_graph).output.numpy(), nodes["logits"], rtol=1e-4, atol=1e-5
            )
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o666 & ~_umask()}
    lines = list(csv.DictReader((folder / "history.csv").read_text().splitlines()))
    assert [(line["run"], line["epoch"]) for line in lines] == [(str(r), str(e)) for r in (0, 1) for e in (1, 2, 3)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "cora_mk"], "unknown dataset 'cora_mk'; did you mean 'cora_ml'?"),
        (["train", "--runs", "0"], "runs must be >= 1, got 0."),
        (["train", "--penalty", "-1"], "penalty must be >= 0, got -1.0."),
        (["train", "--max-steps", "0"], "max_steps must be >= 1, got 0."),
        (["train", "--device", "gpu"], "device must be cpu, cuda or cuda:N, got 'gpu'."),
        (["train", "--device", "cuda:99"], "device cuda:99 needs a CUDA GPU"),
        (["train", "--runs", "many"], "--runs must be an integer, got 'many'."),
        (["train", "--penalty", "x"], "--penalty must be a number, got 'x'."),
        (["train", __file__], "is a file; for your own graph use: apgcn fit"),
        (["train", "--set", "hidden=8"], "unknown hyperparameter of apgcn 'hidden'; did you mean 'hidden_channels'?"),
        (["train", "--set", "watch=training"], "'watch'; did you mean 'monitor'?"),
        (["train", "--set", "seed_dropout=0.5"], "'seed_dropout'; did you mean 'z0_dropout'?"),
        (["train", "--model", "ngcn", "--set", "most_power=3"], "'most_power'; did you mean 'max_power'?"),
        (["train", "citeseer", "--runs", "0"], "runs must be >= 1, got 0."),
        (["train", "--runs", "1" + 30 * "0"], "runs must be <= 100000, got a number of 31 digits."),
        (["train", "--device", "cuda:٣"], "device must be cpu, cuda or cuda:N"),
        (["train", "--seed", "-1"], "seed must be >= 0, got -1."),
        (["train", "--penalty", "1", "--set", "penalty=2"], "penalty must be set once, got it twice."),
        (["train", "--set", "penlty=1"], "unknown hyperparameter of apgcn 'penlty'; did you mean 'penalty'?"),
        (
            ["train", "--model", "gcn", "--penalty", "0.1"],
            "unknown hyperparameter of gcn 'penalty'; known: hidden_channels, dropout",
        ),
        (["train", "--model", "gcm"], "unknown model 'gcm'; did you mean 'gcn'?"),
        (["train", "--model", "gcn", "--preset", "mine"], "unknown preset 'mine'; known: paper, published"),
        (["train", "--model", "gcn", "--preset", "tuned"], "gcn has no tuned preset for cora; available: published"),
        (
            ["train", "--set", "early_stop_mode=accuracy"],
            "early_stop_mode must be one of either, tie, loss, got 'accuracy'.",
        ),
        (["models", "gcm"], "unknown model 'gcm'; did you mean 'gcn'?"),
        (["models", "--dataset", "cara"], "unknown dataset 'cara'; did you mean 'cora'?"),
        (["train", "--set", "hidden_channels"], "--set must be NAME=VALUE, got 'hidden_channels'."),
        (["train", "--set", "hidden_channels=2.5"], "hidden_channels must be an integer, got '2.5'."),
        (["train", "--set", "monitor=test"], "monitor must be one of stopping, training, regularised, got 'test'."),
        (["train", "--colour", "red"], "--colour"),
        (["frain"], "frain"),
    ],
)
def test_a_mistake_costs_one_sentence_and_exit_status_2(capsys, arguments, sentence):
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.startswith("apgcn: ")
    assert printed.err.count("\n") == 1


def test_an_error_about_a_file_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("APGCN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # no network
    assert run(["train", "citeseer"]) == 2
    message = capsys.readouterr().err
    for part in ("citeseer.npz", str(tmp_path / "data"), "https://"):
        assert part in message
    assert message.count("\n") == 1

    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "citeseer.npz").write_bytes(b"something else")
    assert run(["train", "citeseer"]) == 2
    assert "must have SHA-256" in capsys.readouterr().err
    assert (tmp_path / "data" / "citeseer.npz").read_bytes() == b"something else"


def test_an_empty_folder_is_filled_and_stays_the_same_folder(tmp_path, monkeypatch):
    inode = tmp_path.stat().st_ino
    monkeypatch.chdir(tmp_path)
    assert run([*QUICK, "--out", ".", "--json"]) == 0
    assert tmp_path.stat().st_ino == inode
    assert sorted(os.listdir(tmp_path)) == ["history.csv", "nodes.npz", "summary.json", "weights.safetensors"]


def test_a_folder_that_a_killed_process_had_begun_to_fill_counts_as_empty(tmp_path):
    (tmp_path / ".partial-abc").mkdir()
    with new_folder(tmp_path) as folder:
        (folder / "a").write_text("1")
    assert sorted(os.listdir(tmp_path)) == [".partial-abc", "a"]


def test_of_two_processes_that_write_one_folder_the_second_fails(tmp_path):
    slow = new_folder(tmp_path)
    (slow.__enter__() / "a").write_text("slow")
    with new_folder(tmp_path) as quick:
        (quick / "a").write_text("quick")
    with pytest.raises(InvalidInput, match="has files in it"):
        slow.__exit__(None, None, None)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "quick"


def test_a_result_that_cannot_be_saved_is_still_shown(tmp_path, monkeypatch, capsys):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("apgcn.training.outputs.save", full_disk)
    assert run([*QUICK, "--out", str(tmp_path / "a" / "b"), "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["runs"] == 1
    assert run([*QUICK, "--out", str(tmp_path / "a" / "b")]) == 2
    assert "written" not in capsys.readouterr().out
    assert "No space left on device" in printed.err
    assert os.listdir(tmp_path) == []


def test_a_diverged_training_is_a_mistake(capsys):
    assert run([*QUICK, "--set", "learning_rate=1e30", "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["diverged"] == 1
    assert "1 of 1 runs diverged" in printed.err


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m apgcn datasets | true; exit ${{PIPESTATUS[0]}}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_terminal_without_block_characters_gets_hash_signs(tmp_path):
    command = [sys.executable, "-m", "apgcn", *QUICK, "--set", "max_epochs=1"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "|####" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU here")
def test_cuda_without_cuda_is_a_mistake(capsys):
    assert run(["train", "--device", "cuda"]) == 2
    assert "device cuda needs a CUDA GPU, but PyTorch sees 0 here; try cpu." in capsys.readouterr().err


def test_out_is_refused_before_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("apgcn.training.batching.train_runs", lambda *_, **__: pytest.fail("trained first"))
    (tmp_path / "file").write_text("content")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("content")
    for target, part in [("file", "is a file"), ("full", "has files in it"), ("file/below", "must be writable")]:
        assert run([*QUICK, "--out", str(tmp_path / target)]) == 2
        printed = capsys.readouterr()
        assert part in printed.err
        assert printed.err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "content"
    assert sorted(os.listdir(tmp_path)) == ["file", "full"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_training_leaves_nothing_behind(tmp_path, sent):
    out = tmp_path / "new" / "result"
    command = [sys.executable, "-m", "apgcn", "train", "cora", "--runs", "100", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()), "the folder is prepared before training"
    time.sleep(1)
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=60)
    assert shell_status(process) == 130
    assert "apgcn: interrupted." in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_datasets_are_listed_as_text_and_as_json(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("APGCN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pubmed.npz").write_bytes(b"")
    assert run(["datasets"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "cora_ml",
        "81,894",
        "embedded",
        str(tmp_path / "pubmed.npz"),
        "comes from https://",
        "Shchur",
        "Platonov",
        "MIT",
    ):
        assert part in shown
    assert run(["datasets", "--json"]) == 0
    listed = {line["name"]: line for line in json.loads(capsys.readouterr().out)["datasets"]}
    assert listed["pubmed"]["path"] == str(tmp_path / "pubmed.npz")
    assert listed["citeseer"]["path"] is None
    assert listed["amazon_photo"]["paper"]["monitor"] == "training"
    assert (listed["tolokers"]["license"], listed["tolokers"]["metric"]) == ("MIT", "roc_auc")


def test_a_graph_with_published_splits_is_trained_on_them(benchmark_graph, capsys):
    graph = benchmark_graph("chameleon_filtered")
    assert run(["train", "chameleon_filtered", "--runs", "2", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["seed_set"], [line["split"] for line in summary["each_run"]]) == ("published", [0, 1])
    assert sum(summary["steps_histogram"]) == 2 * graph.num_nodes
    assert run(["train", "chameleon_filtered", "--model", "lp", "--runs", "11"]) == 0
    printed = capsys.readouterr()
    assert "one run per split: 10 runs" in printed.err
    assert "409 training, 287 stopping and 194 test nodes" in printed.out


def test_roc_auc_is_shown_where_the_authors_judge_by_it(benchmark_graph, tmp_path, capsys):
    graph, splits = benchmark_graph("minesweeper"), published_splits("minesweeper")
    options = ["train", "minesweeper", "--runs", "2", "--model", "vgcn"]
    assert run([*options, "--json", "--out", str(tmp_path / "runs")]) == 0
    summary = json.loads(capsys.readouterr().out)
    logits = np.load(tmp_path / "runs" / "nodes.npz")["logits"]
    for number, line in enumerate(summary["each_run"]):
        scores, labels = logits[number][splits[number].test], graph.labels[splits[number].test]
        positive, negative = ((scores[labels == label] @ [-1, 1])[:, None] for label in (1, 0))
        pairs = positive - negative.T
        assert line["test_roc_auc"] == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert summary["roc_auc_mean"] == pytest.approx(np.mean([line["test_roc_auc"] for line in summary["each_run"]]))
    assert summary["roc_auc_ci95"] > 0
    assert run(options) == 0
    assert f"ROC AUC on test nodes   {100 * summary['roc_auc_mean']:.2f} % " in capsys.readouterr().out


def test_any_hyperparameter_can_be_set_and_overrides_the_preset(capsys):
    assert run([*QUICK, "--set", "l2=0.5", "--set", "monitor=training", "--set", "halting_interval=2", "--json"]) == 0
    hyperparameters = json.loads(capsys.readouterr().out)["hyperparameters"]
    assert (hyperparameters["l2"], hyperparameters["monitor"]) == (0.5, "training")
    assert hyperparameters["halting_interval"] == 2
    assert hyperparameters["penalty"] == 0.005


def test_help_and_version(capsys):
    assert run([]) == 0
    assert re.search(r"^\W*train ", capsys.readouterr().out, re.MULTILINE)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("apgcn 0.")
    assert run(["train", "--help"]) == 0
    assert "--penalty" in capsys.readouterr().out


def test_help_of_train_and_of_fit_has_the_options_of_its_own_job(capsys):
    assert run(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    for part in ("--runs", "--preset", "Model", "Training", "Output"):
        assert part in shown
    for part in ("--edges", "--label", "--ensemble"):
        assert part not in shown
    assert run(["fit", "--help"]) == 0
    shown = capsys.readouterr().out
    for part in ("--edges", "--label", "--ensemble", "Data", "Columns", "Model", "Training", "Output"):
        assert part in shown
    for part in ("--runs", "--preset"):
        assert part not in shown


def test_bars_are_proportional_to_their_counts():
    lines = histogram([1, 4, 0])
    assert [line.count("█") for line in lines] == [10, 40, 0]
    assert [line.split()[-2] for line in lines] == ["20.0", "80.0", "0.0"]


def test_rounded_durations_carry_over():
    assert [format_duration(seconds) for seconds in (59.96, 119.7, 7199.8)] == ["60.0 s", "2 min 0 s", "2 h 0 min"]


def test_an_interval_over_few_runs_is_not_to_be_trusted(capsys):
    assert run(["train", "cora", "--runs", "2", "--set", "max_epochs=2"]) == 0
    assert "(95 % interval over 2 runs, too few to trust it)" in capsys.readouterr().out


def test_a_model_without_training_has_no_epochs_and_no_training_hyperparameters(capsys):
    options = ["train", "cora", "--model", "btfp", "--set", "rounds=1"]
    assert run(options) == 0
    assert "epochs" not in capsys.readouterr().out
    assert run([*options, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["hyperparameters"]) == {
        "teleport",
        "max_steps",
        "rounds",
        "growth",
        "ridge",
    }


def test_with_min_steps_0_the_histogram_begins_at_0(capsys):
    assert run([*QUICK, "--set", "min_steps=0", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert len(summary["steps_histogram"]) == 3  # K = 0, 1, 2
    assert sum(summary["steps_histogram"]) == 2485
    assert run([*QUICK, "--set", "min_steps=0"]) == 0
    assert "K =  0 |" in capsys.readouterr().out
    assert histogram([1, 3], first=0)[0].startswith("  K =  0 |")


def test_min_steps_above_max_steps_is_refused(capsys):
    assert run([*QUICK, "--set", "min_steps=3"]) == 2
    assert "min_steps must be at most max_steps, 2, got 3" in capsys.readouterr().err
