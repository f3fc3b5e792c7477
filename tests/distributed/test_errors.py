"""Mistakes of a distributed training: one sentence of rank 0, and exit status 2 of all ranks."""

import pytest
from helpers.rank_processes import WITHOUT_NUMBA, start, wait

from apgcn.cli import run
from apgcn.data.npz import write_npz
from apgcn.data.synthetic import synthetic_graph


@pytest.mark.slow
def test_ranks_with_different_files_are_reported(archive, tmp_path):
    other = synthetic_graph(401, edges=1500, features=12, classes=3)
    write_npz(tmp_path / "other.npz", other)
    arguments = ["fit", "--graph", archive, "--out", tmp_path / "m"]
    other_arguments = ["fit", "--graph", tmp_path / "other.npz", "--out", tmp_path / "m"]
    results = wait(start(2, arguments, arguments_of={1: other_arguments}))
    assert [status for status, _, _ in results] == [2, 2]
    assert "all ranks must have the same graph, but that of rank 1 (401 nodes) differs" in results[0][2]
    assert results[1][2] == ""
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_ranks_with_different_hyperparameters_are_reported(archive, tmp_path):
    arguments = ["fit", "--graph", archive, "--out", tmp_path / "m"]
    results = wait(start(2, arguments, arguments_of={1: [*arguments, "--set", "hidden_channels=32"]}))
    assert [status for status, _, _ in results] == [2, 2]
    assert "all ranks must train the same, but on rank 1 the model differs" in results[0][2]


@pytest.mark.slow
def test_ranks_with_different_commands_are_reported(archive, tmp_path):
    arguments = ["fit", "--graph", archive, "--out", tmp_path / "m"]
    results = wait(start(2, arguments, arguments_of={1: ["train", "cora", "--out", tmp_path / "m"]}))
    assert [status for status, _, _ in results] == [2, 2]
    assert "all ranks must get the same arguments, but rank 1 trains cora" in results[0][2]
    assert results[1][2] == ""


@pytest.mark.parametrize(("name", "value"), [("RANK", "2"), ("RANK", "abc"), ("WORLD_SIZE", "0"), ("MASTER_PORT", "x")])
def test_an_invalid_environment_is_reported(name, value, tmp_path, capsys, monkeypatch):
    for variable, usual in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29555")):
        monkeypatch.setenv(variable, value if variable == name else usual)
    assert run(["train", "cora", "--distributed", "--out", str(tmp_path / "m")]) == 2
    assert f"the environment has RANK={'0' if name != 'RANK' else value}" in capsys.readouterr().err


@pytest.mark.slow
def test_numba_must_be_on_all_ranks_or_on_none(archive, tmp_path):
    """With and without it, ranks would exchange different things."""
    results = wait(start(2, ["fit", "--graph", archive, "--out", tmp_path / "m"], code_of={1: WITHOUT_NUMBA}))
    assert [status for status, _, _ in results] == [2, 2]
    assert "on rank 1 the presence of numba differs (True here, False there)" in results[0][2]


@pytest.mark.slow
def test_a_file_that_one_rank_lacks_is_reported(archive, tmp_path):
    arguments = ["fit", "--graph", archive, "--out", tmp_path / "m"]
    other_arguments = ["fit", "--graph", tmp_path / "none.npz", "--out", tmp_path / "m"]
    results = wait(start(2, arguments, arguments_of={1: other_arguments}))
    assert [status for status, _, _ in results] == [2, 2]
    assert "rank 1: " in results[0][2]
    assert "cannot be read" in results[0][2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "cora", "--distributed", "--out", "OUT"], "must be started once for every rank: torchrun"),
        (["train", "cora", "--distributed"], "--distributed must come with --out"),
        (["fit", "--graph", "g.npz", "--distributed"], "--distributed must come with --out"),
        (["train", "cora", "--distributed", "--out", "OUT", "--runs", "3"], "--distributed trains one model"),
        (["fit", "--graph", "g.npz", "--distributed", "--out", "OUT", "--tune", "3"], "--distributed trains one model"),
        (["train", "cora", "--partition", "metis"], "--partition must come with --distributed"),
    ],
)
def test_a_mistake_is_reported_before_ranks_connect(arguments, sentence, tmp_path, capsys, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert run([argument.replace("OUT", str(tmp_path / "m")) for argument in arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "gat"], "needs a model that computes each row from in-neighbours, but GAT needs all rows"),
        (["--partition", "thirds"], "unknown partition 'thirds'; known: auto, metis, blocks"),
    ],
)
def test_a_mistake_is_reported_by_one_rank(options, sentence, tmp_path):
    results = wait(start(2, ["train", "cora", "--out", tmp_path / "m", *options]))
    assert [status for status, _, _ in results] == [2, 2]
    assert sentence in results[0][2]
    assert results[1][2] == ""
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_mistake_in_the_arguments_of_all_ranks_is_reported_once(tmp_path):
    results = wait(start(2, ["train", "cora", "--out", tmp_path / "m", "--partitions", "metis"]))
    assert [status for status, _, _ in results] == [2, 2]
    assert "No such option: --partitions" in results[0][2]
    assert results[1][2] == ""
    results = wait(start(2, ["train", "cora", "--out", tmp_path / "m", "--set", "hiden_channels=3"]))
    assert [status for status, _, _ in results] == [2, 2]
    assert "did you mean 'hidden_channels'?" in results[0][2]
    assert results[1][2] == ""


def test_torchrun_without_distributed_is_a_mistake(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, sentence in (("0", "torchrun has started 2 processes, which need --distributed"), ("1", "")):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert run(["train", "cora", "--out", str(tmp_path / "m")]) == 2
        message = capsys.readouterr().err
        assert sentence in message
        assert bool(message) == bool(sentence)
