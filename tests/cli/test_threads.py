"""`--threads` and APGCN_THREADS of every command that trains or predicts."""

import json
import os
import subprocess
import sys

import pytest
import torch
from helpers.graphs import random_graph
from helpers.rank_processes import run_ranks

from apgcn.benchmark.speed.end_to_end import ImportTime
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.io import write_npz

QUICK = ["--set", "max_epochs=2", "--max-steps", "2"]
SMALL_PLAN = ["--runs", "2", "--models", "vgcn", "--datasets", "cora"]
COMMANDS = {
    "train": ["train", "cora"],
    "fit": ["fit", "--graph", "graph.npz", "--out", "out"],
    "predict": ["predict", "model", "--out", "out.csv"],
    "explain": ["explain", "model", "--html", "out.html"],
    "reproduce": ["reproduce", "table2", "--store", "store"],
    "tune": ["tune", "cora", "--store", "store"],
    "bench": ["bench", "cora"],
}


@pytest.fixture(autouse=True)
def four_cores(monkeypatch, tmp_path):
    for name in ("APGCN_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("apgcn.ops.threads.available_cores", lambda: 4)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def few_epochs(monkeypatch):
    from apgcn.benchmark import config

    preset_config = config.preset_config
    monkeypatch.setattr(
        config, "preset_config", lambda dataset, **changes: preset_config(dataset, **{**changes, "max_epochs": 2})
    )


def summary_of(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("0", "threads must be an integer >= 1, got 0; leave it out to use the 4 cores that this process may use."),
        ("-1", "threads must be an integer >= 1, got -1; leave it out"),
        ("two", "--threads must be an integer, got 'two'."),
        ("1.5", "--threads must be an integer, got '1.5'."),
    ],
)
def test_an_invalid_number_costs_one_sentence(command, value, sentence, tmp_path, capsys):
    assert run([*COMMANDS[command], f"--threads={value}"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    if "Invalid value" not in printed.err:  # the words of typer's own message differ between its versions
        assert printed.err.startswith(f"apgcn: {sentence}")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_an_invalid_variable_costs_one_sentence(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("APGCN_THREADS", "two")
    assert run(COMMANDS[command]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("apgcn: APGCN_THREADS must be an integer >= 1, got 'two'; unset it to use the 4 core")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_summary_of_a_training_has_the_number(capsys, monkeypatch):
    train = ["train", "cora", *QUICK]
    default, err = summary_of(capsys, *train)
    assert (default["threads"], err) == (4, "")
    one, err = summary_of(capsys, *train, "--threads", "1")
    assert (one["threads"], err) == (1, "")
    assert one["each_run"] == default["each_run"]
    monkeypatch.setenv("APGCN_THREADS", "3")
    assert summary_of(capsys, *train)[0]["threads"] == 3
    assert summary_of(capsys, *train, "--threads", "2")[0]["threads"] == 2


def test_ten_thousand_threads_are_as_many_as_there_are_cores_and_one_line(capsys, monkeypatch):
    train = ["train", "cora", *QUICK]
    line = " 10000 is more than there are cores, so 4 threads will be used: this process may use 4 cores.\n"
    summary, err = summary_of(capsys, *train, "--threads", "10000")
    assert (summary["threads"], err) == (4, f"--threads{line}")
    monkeypatch.setenv("APGCN_THREADS", "10000")
    summary, err = summary_of(capsys, *train)
    assert (summary["threads"], err) == (4, f"APGCN_THREADS{line}")


def test_a_process_with_one_core_trains_on_one_thread():
    code = (
        "import os, sys; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]); "
        "from apgcn.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", "cora", *QUICK, "--threads", "10000", "--json"]
    finished = subprocess.run(command, text=True, capture_output=True, check=True)
    assert json.loads(finished.stdout)["threads"] == 1
    assert finished.stderr.endswith("so 1 thread will be used: this process may use 1 core.\n")


def test_fit_and_predict_report_the_number(capsys, tmp_path):
    write_npz(tmp_path / "graph.npz", random_graph(60, edges=150, features=4))
    fit = ["fit", "--graph", "graph.npz", "--set", "max_epochs=2"]
    assert summary_of(capsys, *fit, "--out", "m", "--threads", "3")[0]["threads"] == 3
    assert json.loads((tmp_path / "m" / "model.json").read_text())["metrics"]["threads"] == 3
    predict = ["predict", "m", "--out"]
    assert summary_of(capsys, *predict, "a.csv", "--threads", "1")[0]["threads"] == 1
    assert summary_of(capsys, *predict, "b.csv")[0]["threads"] == 4
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    assert run(["explain", "m", "--html", "steps.html", "--threads", "2"]) == 0


@pytest.mark.parametrize(
    ("options", "threads", "line"),
    [
        ([], 4, ""),
        (["--threads", "3"], 3, ""),
        (["--workers", "2"], 2, ""),
        (["--workers", "2", "--threads", "1"], 1, ""),
        (["--workers", "3"], 1, ""),
        (
            ["--workers", "2", "--threads", "10000"],
            2,
            "--threads 10000 is more than there are cores, so 2 threads will be used: this process may use 4 cores, "
            "which its workers share.\n",
        ),
    ],
)
def test_records_have_the_number_of_threads_of_their_worker(options, threads, line, few_epochs, tmp_path, capsys):
    assert run(["reproduce", "table2", *SMALL_PLAN, "--store", "store", *options]) == 0
    assert capsys.readouterr().err.startswith(f"{line}0/2 runs")
    records = Store(tmp_path / "store").records.values()
    assert [record.threads for record in records] == [threads] * 2
    assert [record.command.endswith(" ".join(options)) for record in records] == [True] * 2


def test_table5_is_timed_on_one_thread(few_epochs, tmp_path, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.worker.TIMED_EPOCHS", 1)
    options = ["--models", "vgcn", "--datasets", "cora", "--threads", "4"]
    assert run(["reproduce", "table5", *options, "--store", "store"]) == 0
    assert {timing.threads for timing in Store(tmp_path / "store").timings.values()} == {1}


def test_bench_reports_the_number_and_gives_pytorch_as_many_in_the_baselines(capsys, monkeypatch):
    used = set()

    class Baseline:
        def step(self):
            used.add(torch.get_num_threads())

        evaluate = step

    monkeypatch.setattr("apgcn.benchmark.speed.epochs.build_baselines", lambda *_, **__: {"pyg_apgcn": Baseline()})
    monkeypatch.setattr("apgcn.benchmark.speed.end_to_end.time_imports", lambda: ImportTime(0.0, 0.0, 0.0))
    bench = ["bench", "cora", "--batch-sizes", "1", "--repeats", "1", "--threads", "2"]
    assert summary_of(capsys, *bench)[0]["threads"] == 2
    assert used == {2}
    assert run(bench) == 0
    assert ", cpu, 2 threads, PyTorch" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_ranks_of_a_machine_share_its_cores(tmp_path, monkeypatch):
    """As torchrun starts them: with OMP_NUM_THREADS=1, however many cores there are."""
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    for num_ranks, options, expected in (
        (1, [], cores),
        (2, [], max(1, cores // 2)),
        (2, ["--threads", "1"], 1),
        (2, ["--threads", "10000"], max(1, cores // 2)),
    ):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(num_ranks))
        out = tmp_path / f"{num_ranks} {options}"
        results = run_ranks(num_ranks, ["train", "cora", *QUICK, *options, "--out", out, "--json"])
        assert json.loads(results[0][1])["threads"] == expected
        assert [err.count("--threads 10000 is more") for _, _, err in results][:1] == ["10000" in options]
        assert not any("more than" in err for _, _, err in results[1:])
