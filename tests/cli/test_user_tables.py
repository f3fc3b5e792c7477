"""`apgcn fit` and `predict` on tables as users have them: what is assumed is printed once and kept with the model."""

import json

import numpy as np
from helpers.graphs import two_communities

from apgcn.cli import run
from apgcn.inference.bundle import load_model

QUICK = ["--set", "max_epochs=20"]


def write_community_tables(folder, *, separator=",", header="source,target"):
    """Write two communities as tables: an index, an ignored column, missing values, and a class with one node."""
    graph = two_communities()
    coo = graph.adjacency.tocoo()
    names = [f"n{node}" for node in range(graph.num_nodes)]
    edges = [f"{names[first]},{names[second]}" for first, second in zip(coo.row, coo.col, strict=True)]
    (folder / "edges.csv").write_text("\n".join([*([header] if header else []), *edges]) + "\n")
    rows = [["", "id", "group", "secret", *(f"f{number}" for number in range(graph.num_features))]]
    for node, values in enumerate(np.asarray(graph.features)):
        label = "rare" if node == 7 else "" if node % 4 == 0 else "ab"[graph.labels[node]]
        cells = ["NA" if (node, number) == (3, 0) else f"{value:.4f}" for number, value in enumerate(values)]
        rows.append([str(node), names[node], label, f"s{node}", *cells])
    text = "\n".join(separator.join(row) for row in rows)
    (folder / "nodes.csv").write_text(text if separator == "," else text.replace(".", ","))
    return ["--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "group", "--out", "m"]


def test_what_is_assumed_is_printed_once_and_kept_with_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = write_community_tables(tmp_path, separator=";", header="")
    assert run(["fit", *options, "--ignore", "secret", "--min-class", "2", "--json", *QUICK]) == 0
    printed = capsys.readouterr()
    notes = json.loads(printed.out)["notes"]
    for phrase in (
        "edges.csv: the first line is an edge, because ",
        "nodes.csv: ignored the index column 'Unnamed: 0', because 'id' holds the node ids",
        "nodes.csv: cells are separated by ';' and numbers have a decimal comma",
        "nodes.csv: 1 missing value replaced by the mean: 'f0'.",
        "classes with fewer than 2 labelled nodes are treated as unknown: 'rare' (1).",
    ):
        assert len([note for note in notes if phrase in note]) == 1, (phrase, notes)
        assert printed.err.count(phrase) == 1
    assert list(load_model(tmp_path / "m").notes) == notes
    assert load_model(tmp_path / "m").schema.dropped_classes == ("rare",)


def test_ignored_column_is_needed_by_no_prediction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = write_community_tables(tmp_path)
    assert run(["fit", *options, "--ignore", "secret", "--min-class", "2", *QUICK]) == 0
    rows = [line.split(",") for line in (tmp_path / "nodes.csv").read_text().splitlines()]
    (tmp_path / "fewer.csv").write_text("\n".join(",".join([*row[:3], *row[4:]]) for row in rows))
    for nodes in ("nodes.csv", "fewer.csv"):
        assert run(["predict", "m", "--edges", "edges.csv", "--nodes", nodes, "--out", f"of_{nodes}"]) == 0
    assert run(["predict", "m", "--out", "own.csv"]) == 0
    expected = (tmp_path / "own.csv").read_text()
    assert (tmp_path / "of_nodes.csv").read_text() == (tmp_path / "of_fewer.csv").read_text() == expected


def test_new_nodes_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = write_community_tables(tmp_path)
    assert run(["fit", *options, "--ignore", "secret", "--min-class", "2", *QUICK]) == 0
    header, first, second, *_ = (tmp_path / "nodes.csv").read_text().splitlines()
    new = [first.replace("n0", "new1"), second.replace("n1", "new2")]
    (tmp_path / "new.csv").write_text("\n".join([header, *new]))
    (tmp_path / "more.csv").write_text("source,target\nnew1,n0\nnew2,new1\n")
    command = ["predict", "m", "--edges", "more.csv", "--nodes", "new.csv", "--add"]
    assert run([*command, "--out", "all.csv"]) == 0
    assert run([*command, "--new-only", "--out", "new_only.csv"]) == 0
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert (tmp_path / "new_only.csv").read_text().splitlines() == [rows[0], *rows[-2:]]
    for wrong in (command[:-1], [*command, "--node-ids", "new1"], [*command[:4], "--add"], command[:2]):
        capsys.readouterr()
        assert run([*wrong, "--new-only", "--out", "no.csv"]) == 2
        assert "--new-only must come with --add and --nodes" in capsys.readouterr().err
    (tmp_path / "none.csv").write_text(header)
    command[command.index("new.csv")] = "none.csv"
    (tmp_path / "more.csv").write_text("source,target\nn1,n0\n")
    assert run([*command, "--new-only", "--out", "no.csv"]) == 2
    assert "--new-only needs a row for each new node" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


def test_one_failing_command_names_all_classes_that_are_too_small(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = write_community_tables(tmp_path)
    lines = (tmp_path / "nodes.csv").read_text().splitlines()
    for node in range(1, 13):
        cells = lines[node].split(",")
        cells[2] = f"class {node}"
        lines[node] = ",".join(cells)
    (tmp_path / "nodes.csv").write_text("\n".join(lines))
    assert run(["fit", *options, *QUICK]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert all(f"'class {node}'" in message for node in range(1, 13))
    assert "--min-class 2" in message
    assert not (tmp_path / "m").exists()
    assert run(["fit", *options, "--min-class", "2", "--json", *QUICK]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == ["a", "b"]


def test_regression_target_is_no_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = write_community_tables(tmp_path)
    options[options.index("group")] = "f1"
    assert run(["fit", *options, *QUICK]) == 2
    assert "column 'f1' must contain classes, but looks like a regression target" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
