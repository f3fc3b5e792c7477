# ruff: noqa: E501  (a row of the table stays in a line)
"""What a user's mistake in a table gets: one sentence that names file, line and column, and says what to do."""

import re

import numpy as np
import pytest

from apgcn.errors import ApgcnError
from apgcn.io.build_graph import TableSchema, build_graph
from apgcn.io.registry import read_table

EDGES = "source,target\na,b\nb,c\nc,d\n"
NODES = "id,topic,size\na,x,1\nb,y,2\nc,x,3\nd,y,4\n"
LABEL = {"label": "topic"}

# edges, nodes, how they are read, and what the user sees
MISTAKES = {
    "an edge to an unknown node": ("source,target\na,b\nb,e\n", NODES, LABEL, "edges.csv, line 3, column 'target' must be the id of a node in .*nodes.csv, got 'e'; add a row"),
    "an edge from nobody": ("source,target\n,b\n", NODES, LABEL, "edges.csv, line 2, column 'source' must be the id of a node in .*, got ''"),
    "an id twice": (EDGES, NODES + "a,x,5\n", LABEL, "nodes.csv, line 6, column 'id' must be an id of its own, but 'a' is also that of .*line 2"),
    "a node without id": (EDGES, NODES + ",x,5\n", LABEL, "nodes.csv, line 6, column 'id' must be the id of a node, but is empty"),
    "a class with one node": (EDGES, NODES.replace("d,y", "d,z"), LABEL, "nodes.csv, line 3, column 'topic' is the only node of class 'y', but .*label another one"),
    "no label at all": (EDGES, "id,topic,size\na,,1\nb,,2\nc,,3\nd,,4\n", LABEL, "column 'topic' must hold the classes of some nodes, but all its cells are empty"),
    "one class": (EDGES, NODES.replace(",y,", ",x,"), LABEL, "column 'topic' must hold two classes or more, but there is only 'x'"),
    "a label that is no column": (EDGES, NODES, {"label": "topics"}, "nodes.csv has no column 'topics' for --label; did you mean 'topic'?"),
    "a label far from any column": (EDGES, NODES, {"label": "qqq"}, "nodes.csv has no column 'qqq' for --label; its columns are 'id', 'topic', 'size'"),
    "NaN": (EDGES, NODES.replace("b,y,2", "b,y,NaN"), LABEL, "nodes.csv, line 3, column 'size' must be a finite number, got 'NaN'; leave the cell empty"),
    "infinity": (EDGES, NODES.replace("c,x,3", "c,x,-inf"), LABEL, "nodes.csv, line 4, column 'size' must be a finite number, got '-inf'"),
    "a number too large": (EDGES, NODES.replace("c,x,3", "c,x,1e999"), LABEL, "nodes.csv, line 4, column 'size' must be a finite number, got '1e999'"),
    "a short row": (EDGES, NODES.replace("c,x,3", "c,x"), LABEL, "nodes.csv, line 4 must have 3 cells, as its header has, got 2; put quotes"),
    "a long row": ("source,target\na,b,c\n", NODES, LABEL, "edges.csv, line 2 must have 2 cells, as its header has, got 3"),
    "an empty file": ("", NODES, LABEL, "edges.csv must begin with a line of column names, but it is empty"),
    "a blank file": (EDGES, "\n  \n\n", LABEL, "nodes.csv must begin with a line of column names, but it is empty"),
    "no nodes": (EDGES, "id,topic,size\n", LABEL, "nodes.csv must have a row for every node, but has none"),
    "a column without a name": (EDGES, NODES.replace("topic,size", "topic,"), LABEL, "nodes.csv, line 1 must name every column, but that of column 3 is empty"),
    "a column twice": (EDGES, NODES.replace("topic,size", "topic,topic"), LABEL, "nodes.csv, line 1 must name every column differently, but has 'topic' twice"),
    "no features": (EDGES, "id,topic\na,x\nb,y\nc,x\nd,y\n", LABEL, "nodes.csv must have at least one column of features, but has 'id', 'topic'"),
    "features of text alone": (EDGES, NODES.replace("1", "one").replace("2", "two"), LABEL, "nodes.csv must have at least one column of features.*--one-hot or --words"),
    "another encoding": (EDGES, "id,topic,size\na,caf\xe9,1\n".encode("latin-1"), LABEL, "nodes.csv, line 2 must be UTF-8, but it is not; save the file as UTF-8"),
    "UTF-16": (EDGES.encode("utf-16"), NODES, LABEL, "edges.csv must be UTF-8, but it is UTF-16; save it as UTF-8"),
    "bytes of a picture": (b"\x89PNG\r\n\x1a\n\x00\x00", NODES, LABEL, "edges.csv, line 1 must be UTF-8"),
    "a zero byte": (EDGES + "a,\0\n", NODES, LABEL, "edges.csv, line 5 must be text, but it holds a zero byte"),
    "an open quote": (EDGES + 'a,"b\n', NODES, LABEL, "edges.csv, line 5 must be a row of a table .*; look at its quotes"),
    "text after a quote": (EDGES + '"a"x,b\n', NODES, LABEL, "edges.csv, line 5 must be a row of a table"),
    "one column of edges": ("pair\na-b\n", NODES, LABEL, "edges.csv must have a column for each end of an edge, .*'pair'"),
    "a source without a target": (EDGES, NODES, {**LABEL, "source": "source"}, "--source and --target must be given together"),
    "a source that is no column": (EDGES, NODES, {**LABEL, "source": "sourse", "target": "target"}, "edges.csv has no column 'sourse' for --source; did you mean 'source'?"),
    "an id that is no column": (EDGES, NODES, {**LABEL, "id": "key"}, "nodes.csv has no column 'key' for --id"),
    "a weight that is no column": (EDGES, NODES, {**LABEL, "weight": "w"}, "edges.csv has no column 'w' for --weight"),
    "a weight of text": ("source,target,weight\na,b,1\nb,c,heavy\n", NODES, LABEL, "edges.csv, line 3, column 'weight' must be a number, got 'heavy'"),
    "a weight below zero": ("source,target,weight\na,b,-1\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight above 0, got '-1'; leave out the edge"),
    "a weight of zero": ("source,target,weight\na,b,0\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight above 0"),
    "a missing weight": ("source,target,weight\na,b,1\na,c,\n", NODES, LABEL, "edges.csv, line 3, column 'weight' must be a weight above 0, got ''"),
    "an infinite weight": ("source,target,weight\na,b,inf\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a finite number"),
    "one-hot of no column": (EDGES, NODES, {**LABEL, "one_hot": ("colour",)}, "nodes.csv has no column 'colour' for --one-hot"),
    "words of no column": (EDGES, NODES, {**LABEL, "words": ("text",)}, "nodes.csv has no column 'text' for --words"),
    "ignoring no column": (EDGES, NODES, {**LABEL, "ignore": ("sise",)}, "nodes.csv has no column 'sise' for --ignore; did you mean 'size'?"),
    "one-hot of a thousand values": (EDGES, "id,topic,size,key\n" + "".join(f"{n},{'xy'[n % 2]},1,k{n}\n" for n in range(1001)), {**LABEL, "one_hot": ("key",)}, "column 'key' must have at most 1000 values to be one-hot, got 1001; name it after --words"),
    "a line that goes on": ('source,target\n"a\n",b\nb,e\n', NODES.replace("a,x", '"a",x'), LABEL, "edges.csv, line 4, column 'target' must be the id of a node"),
}  # fmt: skip


@pytest.mark.parametrize(("edges", "nodes", "schema", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_words(tmp_path, edges, nodes, schema, sentence):
    for name, content in (("edges.csv", edges), ("nodes.csv", nodes)):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ApgcnError) as told:
        build_graph(
            read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv"), TableSchema(**schema), name="own"
        )
    assert re.search(sentence, str(told.value)), str(told.value)
    assert str(told.value).count("\n") == 0


def test_there_are_forty():
    assert len(MISTAKES) >= 40


def test_a_folder_a_missing_file_and_a_strange_one(tmp_path):
    for path, sentence in (
        (tmp_path, "must be a table, but it is a folder"),
        (tmp_path / "none.csv", "there is no such file"),
        (tmp_path / "book.xlsx", "must be a table, .csv, .tsv, .txt or .parquet, got .xlsx; export it as CSV"),
        (tmp_path / "none.parquet", "there is no such file"),
    ):
        with pytest.raises(ApgcnError, match=re.escape(sentence)):
            read_table(path)


def test_a_text_among_numbers_is_pointed_at(tmp_path):
    """Nine in ten are numbers: the tenth is a slip, or the column is to be named."""
    cells = [*map(str, range(20)), "2O", ""]
    rows = [f"n{number},{'xy'[number % 2]},{cell},{number}\n" for number, cell in enumerate(cells)]
    (tmp_path / "nodes.csv").write_text("id,topic,size,age\n" + "".join(rows))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    edges, nodes = read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv")
    with pytest.raises(ApgcnError, match=r"line 22, column 'size' must be a number .* got '2O'; mend it"):
        build_graph(edges, nodes, TableSchema(label="topic"), name="own")
    assert build_graph(edges, nodes, TableSchema(label="topic", ignore=("size",)), name="own").graph.num_features == 1
    (tmp_path / "nodes.csv").write_text("id,topic,size,age\n" + "".join(rows[:5] + rows[20:]))
    few = build_graph(edges, read_table(tmp_path / "nodes.csv"), TableSchema(label="topic"), name="own")
    assert any("because text: 'size'" in note for note in few.notes)


def test_nothing_is_left_out_without_a_word(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES + "b,a\na,a\nc,d\n")
    (tmp_path / "nodes.csv").write_text(
        "id,topic,size,colour,name\na,x,1,red,A\nb,y,,red,B\nc,x,3,blue,C\nd,y,4,,D\ne,,5,red,E\n"
    )
    schema = TableSchema(label="topic", one_hot=("colour",))
    read = build_graph(read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv"), schema, name="own")
    told = " ".join(read.notes)
    for part in (
        "left out 1 edge from a node to itself",
        "merged 2 edges with one given before",
        "no features, because text: 'name'; --one-hot or --words makes them some",
        "1 value missing, taken as the mean: 'size'",
        "1 value missing, taken as 0: 'colour'",
        "without edges: 1 of 5 nodes",
    ):
        assert part in told, told
    assert read.graph.num_directed_edges == 6
    assert read.encoding.feature_names == ["size", "colour=blue", "colour=red"]
    size = np.asarray(read.graph.features.todense() if hasattr(read.graph.features, "todense") else read.graph.features)
    np.testing.assert_allclose(size[:, 0], (np.array([1, 3.25, 3, 4, 5]) - 3.25) / np.std([1, 3, 4, 5]), atol=1e-6)
