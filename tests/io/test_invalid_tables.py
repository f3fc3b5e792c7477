# ruff: noqa: E501  (a row of the table stays in a line)
"""Invalid tables and files get one error message: file, line and column, and what to do."""

import re
from pathlib import Path

import numpy as np
import pytest

from apgcn.errors import ApgcnError
from apgcn.io.graph_builder import build_graph
from apgcn.io.registry import FORMATS, read_table
from apgcn.io.schema import TableSchema

EDGES = "source,target\na,b\nb,c\nc,d\n"
NODES = "id,topic,size\na,x,1\nb,y,2\nc,x,3\nd,y,4\n"
LABEL = {"label": "topic"}

# edges, nodes, schema, and a regular expression that the message must match
INVALID_TABLES = {
    "an edge to an unknown node": ("source,target\na,b\nb,e\n", NODES, LABEL, "edges.csv, line 3, column 'target' must be the id of a node in .*nodes.csv, got 'e'; add a row"),
    "an edge without a source": ("source,target\n,b\n", NODES, LABEL, "edges.csv, line 2, column 'source' must be the id of a node in .*, got ''"),
    "a duplicate id": (EDGES, NODES + "a,x,5\n", LABEL, "nodes.csv, line 6, column 'id' must be a unique node id, but 'a' is also the id in .*line 2"),
    "a node without id": (EDGES, NODES + ",x,5\n", LABEL, "nodes.csv, line 6, column 'id' must be a node id, but is empty"),
    "a class with one node": (EDGES, NODES + "e,z,5\n", LABEL, "nodes.csv, line 6, column 'topic' is the only node of class 'z', but .*label another node, or pass --min-class 2"),
    "two classes with one node": (EDGES, NODES.replace("d,y", "d,z"), LABEL, "nodes.csv, column 'topic' has one labelled node of each of 2 classes, but .*: 'y', 'z'; label more nodes, or pass --min-class 2"),
    "classes smaller than --min-class": (EDGES, NODES, {**LABEL, "min_class": 3}, "column 'topic' must contain two classes or more that have as many labelled nodes as --min-class requires, got 2 smaller ones, but there is none"),
    "a regression target": (EDGES, "id,price,size\na,1.06,1\nb,2.5,2\nc,3,3\nd,-1e-3,4\n", {"label": "price"}, "column 'price' must contain classes, but looks like a regression target: 4 distinct numbers in 4 rows, such as '1.06', '2.5', '3' and 1 more; divide them into bins"),
    "no label at all": (EDGES, "id,topic,size\na,,1\nb,,2\nc,,3\nd,,4\n", LABEL, "column 'topic' must contain the classes of some nodes, but all its cells are empty"),
    "one class": (EDGES, NODES.replace(",y,", ",x,"), LABEL, "column 'topic' must contain two classes or more, but there is only 'x'"),
    "an unknown label column": (EDGES, NODES, {"label": "topics"}, "nodes.csv has no column 'topics' for --label; did you mean 'topic'?"),
    "a label column unlike any other": (EDGES, NODES, {"label": "qqq"}, "nodes.csv has no column 'qqq' for --label; its columns are 'id', 'topic', 'size'"),
    "a weight that is missing as NaN": ("source,target,weight\na,b,NaN\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight above 0, got 'NaN'"),
    "edges to unknown nodes": ("source,target\na,b\nb,e\nf,e\nc,d\n", NODES, LABEL, "edges.csv, line 3, column 'target' must be the id of a node in .*nodes.csv, got 'e'; 2 of 4 edges name 2 nodes without a row: 'e', 'f'; add rows for them there, or remove these edges"),
    "edges with ids of another column": ("source,target\nA,B\n", NODES.replace("size", "size,key").replace(",1", ",1,A").replace(",2", ",2,B").replace(",3", ",3,C").replace(",4", ",4,D"), LABEL, "got 'A'; .* if column 'key' holds the ids, pass --id 'key'"),
    "ids with and without .0 in one node table": ("source,target\n1,2.0\n", "id,topic,size\n1,x,1\n1.0,y,2\n2,x,3\n3,y,4\n", LABEL, "nodes.csv must have one spelling of each id .* but '1' and '1.0' are two nodes"),
    "ids with and without .0 in one column of edges": ("source,target\n1,2.0\n3,2\n", "id,topic,size\n1,x,1\n2,y,2\n3,x,3\n4,y,4\n", LABEL, "edges.csv, column 'target' must have one spelling of each id .* but has '2' and '2.0'"),
    "an index and a column that may both be the ids": ("source,target\n0,1\n", ",paper,topic,size\n0,3,x,1\n1,2,y,2\n2,1,x,3\n3,0,y,4\n", LABEL, "nodes.csv must have one column of node ids, but it may be 'Unnamed: 0', 'paper'; pass --id"),
    "edges with a column without a name that is no index": (",to\na,b\n", NODES, {**LABEL, "source": "from", "target": "to"}, "edges.csv has no column 'from' for --source"),
    "edges of three columns, the first without a name": (",b,c\na,b,1\na,c,2\n", NODES, LABEL, "edges.csv must name its source column and its target column, but the column 'Unnamed: 0' has no name and is no index of the rows; pass --source and --target"),
    "infinity": (EDGES, NODES.replace("c,x,3", "c,x,-inf"), LABEL, "nodes.csv, line 4, column 'size' must be a finite number, got '-inf'"),
    "a number too large": (EDGES, NODES.replace("c,x,3", "c,x,1e999"), LABEL, "nodes.csv, line 4, column 'size' must be a finite number, got '1e999'"),
    "a short row": (EDGES, NODES.replace("c,x,3", "c,x"), LABEL, "nodes.csv, line 4 must have 3 cells like the header, got 2; put quotes"),
    "a long row": ("source,target\na,b,c\n", NODES, LABEL, "edges.csv, line 2 must have 2 cells like the header, got 3"),
    "an empty file": ("", NODES, LABEL, "edges.csv must begin with a header line of column names, but is empty"),
    "a blank file": (EDGES, "\n  \n\n", LABEL, "nodes.csv must begin with a header line of column names, but is empty"),
    "no nodes": (EDGES, "id,topic,size\n", LABEL, "nodes.csv must have a row for every node, but has none"),
    "a column without a name": (EDGES, NODES.replace("topic,size", "topic,"), LABEL, "nodes.csv, line 1 must name every column, but the name of column 3 is empty"),
    "a duplicate column name": (EDGES, NODES.replace("topic,size", "topic,topic"), LABEL, "nodes.csv, line 1 must have unique column names, but repeats 'topic'"),
    "text features only": (EDGES, NODES.replace("1", "one").replace("2", "two"), LABEL, "nodes.csv must have at least one feature column.*--one-hot or --bag-of-words, or pass --structure degree,random_walk,spectral"),
    "Latin-1 text": (EDGES, "id,topic,size\na,caf\xe9,1\n".encode("latin-1"), LABEL, "nodes.csv, line 2 must be UTF-8, but it is not; save the file as UTF-8"),
    "truncated UTF-16": (EDGES.encode("utf-16")[:-1], NODES, LABEL, "edges.csv must be UTF-16, as its first bytes declare, but is not"),
    "bytes of a picture": (b"\x89PNG\r\n\x1a\n\x00\x00", NODES, LABEL, "edges.csv, line 1 must be UTF-8"),
    "a null byte": (EDGES + "a,\0\n", NODES, LABEL, "edges.csv, line 5 must be text, but it contains a null byte"),
    "an open quote": (EDGES + 'a,"b\n', NODES, LABEL, "edges.csv, line 5 must be a row of a table .*; check its quotes"),
    "text after a quote": (EDGES + '"a"x,b\n', NODES, LABEL, "edges.csv, line 5 must be a row of a table"),
    "an edge table with one column": ("pair\na-b\n", NODES, LABEL, "edges.csv must have a source column and a target column, but has 'pair'"),
    "a source without a target": (EDGES, NODES, {**LABEL, "source": "source"}, "--source and --target must be passed together"),
    "an unknown source column": (EDGES, NODES, {**LABEL, "source": "sourse", "target": "target"}, "edges.csv has no column 'sourse' for --source; did you mean 'source'?"),
    "an unknown id column": (EDGES, NODES, {**LABEL, "id": "key"}, "nodes.csv has no column 'key' for --id"),
    "an unknown weight column": (EDGES, NODES, {**LABEL, "weight": "w"}, "edges.csv has no column 'w' for --weight"),
    "a weight of text": ("source,target,weight\na,b,1\nb,c,heavy\n", NODES, LABEL, "edges.csv, line 3, column 'weight' must be a number, got 'heavy'"),
    "a weight below zero": ("source,target,weight\na,b,-1\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight above 0, got '-1'; remove the edge"),
    "a weight of zero": ("source,target,weight\na,b,0\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight above 0"),
    "a weight that single precision rounds to zero": ("source,target,weight\na,b,1e-300\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a weight from 1e-20 to .*, got '1e-300'"),
    "a missing weight": ("source,target,weight\na,b,1\na,c,\n", NODES, LABEL, "edges.csv, line 3, column 'weight' must be a weight above 0, got ''"),
    "an infinite weight": ("source,target,weight\na,b,inf\n", NODES, LABEL, "edges.csv, line 2, column 'weight' must be a finite number"),
    "an unknown one-hot column": (EDGES, NODES, {**LABEL, "one_hot": ("colour",)}, "nodes.csv has no column 'colour' for --one-hot"),
    "an unknown bag-of-words column": (EDGES, NODES, {**LABEL, "bag_of_words": ("text",)}, "nodes.csv has no column 'text' for --bag-of-words"),
    "an unknown ignored column": (EDGES, NODES, {**LABEL, "ignore": ("sise",)}, "nodes.csv has no column 'sise' for --ignore; did you mean 'size'?"),
    "a one-hot column with over a thousand values": (EDGES, "id,topic,size,key\n" + "".join(f"{n},{'xy'[n % 2]},1,k{n}\n" for n in range(1001)), {**LABEL, "one_hot": ("key",)}, "column 'key' must have at most 1000 distinct values for --one-hot, got 1001; pass it to --bag-of-words"),
    "a cell of two lines": ('source,target\n"a\n",b\nb,e\n', NODES.replace("a,x", '"a",x'), LABEL, "edges.csv, line 4, column 'target' must be the id of a node"),
}  # fmt: skip


@pytest.mark.parametrize(("edges", "nodes", "schema", "message"), INVALID_TABLES.values(), ids=INVALID_TABLES)
def test_invalid_table_gets_a_message_with_file_line_and_column(tmp_path, edges, nodes, schema, message):
    for name, content in (("edges.csv", edges), ("nodes.csv", nodes)):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ApgcnError) as raised:
        build_graph(
            read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv"), TableSchema(**schema), name="graph"
        )
    assert re.search(message, str(raised.value)), str(raised.value)
    assert str(raised.value).count("\n") == 0


# file name, content, and a regular expression that the message must match
INVALID_FILES = {
    "bytes of a picture as CSV": ("nodes.csv", b"\x89PNG\r\n\x1a\n\x00\x00", "nodes.csv, line 1 must be UTF-8"),
    "a truncated Parquet file": ("nodes.parquet", b"PAR1 is all", "must be a Parquet file, but cannot be read as one"),
    "text as npz": ("graph.npz", b"no", "is not a graph archive"),
    "truncated GraphML": ("graph.graphml", b"<graphml><graph>", "line 1 must be XML"),
    "an unknown XML encoding": ("graph.graphml", b"<?xml version='1.0' encoding='Atf-8'?><graphml/>", "must be in a known encoding"),
    "UTF-7": ("graph.graphml", b"<?xml version='1.0' encoding='utf-7'?><graphml/>", "must be"),
    "GB 2312": ("graph.graphml", b"<?xml version='1.0' encoding='gb2312'?><graphml/>", "must be"),
    "no graph": ("graph.xml", b"<html></html>", "must contain one graph, but contains 0"),
    "two graphs": ("graph.graphml", b"<graphml><graph/><graph/></graphml>", "must contain one graph, but contains 2"),
    "a GraphML node without id": ("graph.graphml", b"<graphml><graph><node/></graph></graphml>", "line 1 must have a node with an id, but it has none"),
    "a DOCTYPE": ("graph.graphml", b'<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "must not define entities"),
    "a DOCTYPE in UTF-16": ("graph.graphml", '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><graphml/>'.encode("utf-16"), "must not define entities"),
    "a duplicate GraphML id": ("graph.graphml", b'<graphml><graph><node id="a"/>\n<node id="a"/></graph></graphml>', "line 2 must have a unique node id"),
    "an undeclared GraphML node": ("graph.graphml", b'<graphml><graph><node id="a"/>\n<edge source="a" target="b"/></graph></graphml>', "line 2 must have declared nodes as endpoints"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), INVALID_FILES.values(), ids=INVALID_FILES)
def test_invalid_file_is_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ApgcnError, match=message):
        format_of(name).read(tmp_path / name)


def format_of(name):
    return next(file_format for file_format in FORMATS.values() if Path(name).suffix in file_format.suffixes)


def test_every_format_has_an_invalid_file():
    assert {format_of(name) for name, _, _ in INVALID_FILES.values()} == set(FORMATS.values())


def test_there_are_at_least_forty_invalid_tables():
    assert len(INVALID_TABLES) >= 40


def test_folder_missing_file_and_unknown_suffix_are_rejected(tmp_path):
    for path, message in (
        (tmp_path, "must be a table, but it is a folder"),
        (tmp_path / "none.csv", "there is no such file"),
        (tmp_path / "book.xlsx", "must be a table (.csv, .tsv, .txt, .parquet"),
        (tmp_path / "book.xlsx", "), got .xlsx; export the table as CSV"),
        (tmp_path / "none.parquet", "there is no such file"),
    ):
        with pytest.raises(ApgcnError, match=re.escape(message)):
            read_table(path)


def test_message_about_an_unknown_suffix_names_every_known_one(tmp_path):
    suffixes = [
        suffix for file_format in FORMATS.values() if file_format.content == "table" for suffix in file_format.suffixes
    ]
    with pytest.raises(ApgcnError) as raised:
        read_table(tmp_path / "book.xlsx")
    assert all(suffix in str(raised.value) for suffix in suffixes)


def test_text_among_numbers_is_reported_as_a_mistake(tmp_path):
    """If more than nine in ten cells are numbers, text is a mistake unless the column is one-hot, bag-of-words or ignored."""
    cells = [*map(str, range(20)), "2O", ""]
    rows = [f"n{number},{'xy'[number % 2]},{cell},{number}\n" for number, cell in enumerate(cells)]
    (tmp_path / "nodes.csv").write_text("id,topic,size,age\n" + "".join(rows))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    edges, nodes = read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv")
    with pytest.raises(ApgcnError, match=r"line 22, column 'size' must be a number .* got '2O'; correct it"):
        build_graph(edges, nodes, TableSchema(label="topic"), name="graph")
    assert build_graph(edges, nodes, TableSchema(label="topic", ignore=("size",)), name="graph").graph.num_features == 1
    (tmp_path / "nodes.csv").write_text("id,topic,size,age\n" + "".join(rows[:5] + rows[20:]))
    loaded = build_graph(edges, read_table(tmp_path / "nodes.csv"), TableSchema(label="topic"), name="graph")
    assert any("text columns, not used as features: 'size'" in note for note in loaded.notes)


def test_everything_removed_or_replaced_is_in_the_notes(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES + "b,a\na,a\nc,d\n")
    (tmp_path / "nodes.csv").write_text(
        "id,topic,size,colour,name\na,x,1,red,A\nb,y,,red,B\nc,x,3,blue,C\nd,y,4,,D\ne,,5,red,E\n"
    )
    schema = TableSchema(label="topic", one_hot=("colour",))
    loaded = build_graph(read_table(tmp_path / "edges.csv"), read_table(tmp_path / "nodes.csv"), schema, name="graph")
    notes = " ".join(loaded.notes)
    for note in (
        "removed 1 self-loop",
        "merged 2 duplicate edges",
        "text columns, not used as features: 'name'; pass them to --one-hot or --bag-of-words",
        "1 missing value replaced by the mean: 'size'",
        "1 missing value replaced by 0: 'colour'",
        "isolated nodes: 1 of 5",
    ):
        assert note in notes, notes
    assert loaded.graph.num_directed_edges == 6
    assert loaded.encoding.feature_names == ["size", "colour=blue", "colour=red"]
    size = np.asarray(
        loaded.graph.features.todense() if hasattr(loaded.graph.features, "todense") else loaded.graph.features
    )
    np.testing.assert_allclose(size[:, 0], (np.array([1, 3.25, 3, 4, 5]) - 3.25) / np.std([1, 3, 4, 5]), atol=1e-6)
