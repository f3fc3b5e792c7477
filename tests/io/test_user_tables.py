"""Tables as pandas, Excel and R write them: what is read, what is assumed, and what the notes report about it."""

from itertools import pairwise

import numpy as np
import pytest

from apgcn.errors import InvalidInput
from apgcn.io.csv import read_csv
from apgcn.io.graph_builder import build_graph, extend_graph
from apgcn.io.networkx import from_networkx
from apgcn.io.parquet import read_parquet, write_parquet
from apgcn.io.registry import read_table
from apgcn.io.schema import TableSchema
from apgcn.io.tables import Table

EDGES = "source,target\na,b\nb,c\nc,d\n"
NODES = "id,topic,size\na,x,1\nb,y,2\nc,x,3\nd,y,4\n"
LABEL = TableSchema(label="topic")


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.fixture
def read(tmp_path):
    """A graph from the content of two files."""

    def build(edges, nodes, schema=LABEL, suffix=".csv", **options):
        for name, content in (("edges", edges), ("nodes", nodes)):
            (tmp_path / name).with_suffix(suffix).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        tables = (read_table((tmp_path / name).with_suffix(suffix)) for name in ("edges", "nodes"))
        return build_graph(*tables, schema, name="graph", **options)

    return build


def dense(graph):
    return graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()


def assert_same_graph(graph, other):
    assert (graph.adjacency != other.adjacency).nnz == 0
    np.testing.assert_array_equal(dense(graph), dense(other))
    assert (graph.labels.tolist(), graph.class_names) == (other.labels.tolist(), other.class_names)
    assert graph.node_ids == other.node_ids


def notes_with(loaded, phrase):
    return [note for note in loaded.notes if phrase in note]


# --- the first line of the edges ---


@pytest.mark.parametrize(
    "edges",
    ["a,b\nb,c\nc,d\n", "a b\nb c\nc d", "a,b,2\nb,c,1\nc,d,1\n", "a,b,\nb,c,\nc,d,\n", "a\tb\tb\nb\tc\tb\nc\td\tb\n"],
)
def test_edges_without_a_header_have_their_first_line_as_an_edge(read, edges):
    loaded = read(edges, NODES)
    assert_same_graph(loaded.graph, read(EDGES, NODES).graph)
    assert len(notes_with(loaded, "edges.csv: the first line is an edge, because 'a' and 'b' are nodes")) == 1
    assert (loaded.schema.source, loaded.schema.target) == ("source", "target")


def test_first_edge_may_be_the_only_one_and_the_third_column_its_weight(read):
    loaded = read("a,b,5\n", NODES, TableSchema(label="topic", weight="column 3"))
    assert loaded.graph.adjacency.sum() == 10
    with pytest.raises(InvalidInput, match=r"edges\.csv, line 1, column 'target' must be the id of a node"):
        extend_graph(loaded.graph, Table("edges.csv", ("source", "target"), [["a"], ["q"]], [1]), None, LABEL,
                     loaded.encoding)  # fmt: skip


def test_new_edges_without_a_header_may_name_new_nodes_and_old_ones(read, tmp_path):
    loaded = read(EDGES, NODES)
    (tmp_path / "more.csv").write_text("e,a\ne,b\n")
    new = Table("new", ("id", "size"), [["e"], ["1"]])
    extended = extend_graph(loaded.graph, read_csv(tmp_path / "more.csv"), new, loaded.schema, loaded.encoding)
    assert extended.graph.adjacency.toarray()[4].tolist() == [1, 1, 0, 0, 0]
    assert notes_with(extended, "more.csv: the first line is an edge, because 'e' and 'a' are nodes")


@pytest.mark.parametrize("header", ["a,other", "other,b", "source,target", "from,to", "Source,TARGET"])
def test_header_with_a_name_that_is_no_node_stays_a_header(read, header):
    loaded = read(EDGES.replace("source,target", header), NODES)
    assert_same_graph(loaded.graph, read(EDGES, NODES).graph)
    assert not notes_with(loaded, "the first line")


def test_usual_names_stay_a_header_although_they_are_nodes(read):
    """As in a graph of words."""
    loaded = read("from,to\nfrom,b\n", NODES.replace("a,x", "from,x").replace("c,x", "to,x"))
    assert loaded.graph.num_directed_edges == 2
    assert notes_with(loaded, "the first line is the header, although 'from' and 'to' are nodes")


def test_names_that_the_user_passes_are_a_header(read):
    loaded = read(EDGES.replace("source,target", "a,b"), NODES, TableSchema(label="topic", source="a", target="b"))
    assert_same_graph(loaded.graph, read(EDGES, NODES).graph)


def test_minimum_size_of_a_class_is_kept_in_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(7)
    for node in graph:
        graph.nodes[node].update(topic="aabbc"[node] if node < 5 else float("nan"), size=node, big=node > 2)
    loaded = from_networkx(graph, TableSchema(label="topic", min_class=2))
    assert loaded.graph.labels.tolist() == [0, 0, 1, 1, -1, -1, -1]
    assert loaded.schema.dropped_classes == ("c",)
    assert notes_with(loaded, "classes with fewer than 2 labelled nodes are treated as unknown: 'c' (1)")
    again = from_networkx(graph, loaded.schema, encoding=loaded.encoding, class_names=("a", "b"))
    assert_same_graph(again.graph, loaded.graph)


def test_table_of_another_library_has_no_first_line(tmp_path):
    """Column names of Parquet are names, although pandas calls columns 0 and 1."""
    edges = Table("edges", ("0", "1"), [["0", "1"], ["2", "3"]])
    nodes = Table("nodes", ("id", "size"), [list("0123"), list("1234")])
    write_parquet(tmp_path / "edges.parquet", edges)
    for table in (edges, read_parquet(tmp_path / "edges.parquet")):
        assert build_graph(table, nodes, TableSchema(), name="graph").graph.num_directed_edges == 4


# --- the index of pandas ---


def test_index_of_pandas_is_ignored_where_another_column_holds_the_ids(read, tmp_path, pandas):
    expected = read(EDGES, NODES).graph
    edges, nodes = (pandas.read_csv(tmp_path / f"{name}.csv") for name in ("edges", "nodes"))
    loaded = read(edges.to_csv(), nodes.to_csv())
    assert_same_graph(loaded.graph, expected)
    assert notes_with(loaded, "nodes.csv: ignored the index column 'Unnamed: 0', because 'id' holds the node ids")
    assert notes_with(loaded, "edges.csv: ignored the index column 'Unnamed: 0'.")
    twice = [pandas.read_csv(tmp_path / f"{name}.csv").to_csv() for name in ("edges", "nodes")]
    assert twice[1].startswith(",Unnamed: 0,id")
    assert_same_graph(read(*twice).graph, expected)
    by_option = read(edges.to_csv(), nodes.to_csv(), TableSchema(label="topic", id="id"))
    assert_same_graph(by_option.graph, expected)
    assert notes_with(by_option, "nodes.csv: ignored the index column 'Unnamed: 0'.")
    again = read(EDGES, NODES, loaded.schema, encoding=loaded.encoding, class_names=expected.class_names)
    assert_same_graph(again.graph, expected)


def test_index_of_pandas_holds_the_ids_where_no_other_column_does(read, pandas):
    loaded = read("source,target\n0,1\n1,2\n", ",topic,size\n0,x,1\n1,y,2\n2,x,3\n3,y,4\n")
    assert loaded.graph.node_ids == tuple("0123")
    assert loaded.encoding.feature_names == ["size"]
    assert notes_with(loaded, "nodes.csv: the index column 'Unnamed: 0' holds the node ids")
    assert loaded.schema.id == "Unnamed: 0"
    named = pandas.DataFrame({"topic": list("xyxy"), "size": [1, 2, 3, 4]}, index=list("abcd")).to_csv()
    assert_same_graph(read(EDGES, named).graph, read(EDGES, NODES).graph)


def test_edges_decide_which_column_holds_the_ids(read):
    """`name` is a usual name of ids, and `paper` is not; the edges name the rows, and the papers."""
    nodes = ",topic,size,name\n0,x,1,p\n1,y,2,q\n2,x,3,r\n3,y,4,s\n"
    by_row = read("source,target\n0,1\n1,2\n2,3\n", nodes)
    assert by_row.graph.node_ids == tuple("0123")
    by_paper = read(EDGES, ",paper,topic,size\n0,a,x,1\n1,b,y,2\n2,c,x,3\n3,d,y,4\n")
    assert_same_graph(by_paper.graph, read(EDGES, NODES).graph)


def test_endpoints_without_usual_names_follow_the_index(read):
    loaded = read(",u,v\n0,a,b\n1,b,c\n2,c,d\n", NODES)
    assert_same_graph(loaded.graph, read(EDGES, NODES).graph)


# --- values of cells ---

MARKS = ["", " ", "NaN", "nan", "NA", "N/A", "null", "NULL", "None", "#N/A", "<NA>"]


@pytest.mark.parametrize("mark", MARKS)
def test_missing_number_is_replaced_by_the_mean_of_the_fitted_graph(read, mark):
    loaded = read(EDGES, NODES.replace("d,y,4", f"d,y,{mark}"))
    assert dense(loaded.graph)[:, 0].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5, 0])
    assert notes_with(loaded, "nodes.csv: 1 missing value replaced by the mean: 'size'.")
    other = read("source,target\np,q\n", f"id,size\np,{mark}\nq,3\n", loaded.schema, encoding=loaded.encoding,
                 class_names=("x", "y"))  # fmt: skip
    assert dense(other.graph)[:, 0].tolist() == pytest.approx([0, 1.5**0.5])


@pytest.mark.parametrize("mark", MARKS)
def test_missing_label_is_unknown(read, mark):
    loaded = read(EDGES, NODES + f"e,{mark},5\nf,{mark},6\n")
    assert loaded.graph.labels.tolist() == [0, 1, 0, 1, -1, -1]
    assert loaded.graph.class_names == ("x", "y")
    expected = [] if not mark.strip() else [f"column 'topic': 2 labels read as unknown: '{mark}' (2)."]
    assert [note.split(", ", 1)[1] for note in notes_with(loaded, "read as unknown")] == expected


def test_notes_count_the_missing_values_of_each_column(read):
    nodes = "id,topic,size,age\na,x,1,NA\nb,y,,NaN\nc,x,3,1\nd,y,4,2\n"
    assert notes_with(read(EDGES, nodes), "3 missing values replaced by the mean: 'age' (2), 'size' (1).")


def test_missing_values_of_pandas_in_every_format_are_the_same_graph(read, tmp_path, pandas):
    frame = pandas.DataFrame({"id": list("abcd"), "topic": ["x", None, "x", "y"], "size": [1, np.nan, 3, 4]})
    frame.loc[4] = ["e", "y", 2.5]
    graphs = [read(EDGES, frame.to_csv(index=False, na_rep=mark)).graph for mark in ("", "NaN", "#N/A")]
    cells = [frame["id"].tolist(), frame["topic"].fillna("").tolist(), frame["size"].to_numpy()]
    write_parquet(tmp_path / "nan.parquet", Table("", tuple(frame), cells))
    graphs.append(build_graph(read_csv(tmp_path / "edges.csv"), read_parquet(tmp_path / "nan.parquet"), LABEL,
                              name="graph").graph)  # fmt: skip
    for graph in graphs[1:]:
        assert_same_graph(graph, graphs[0])


def test_nan_that_parquet_stores_is_missing(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": pyarrow.array([1.0, float("nan"), None])}), tmp_path / "t.parquet")
    np.testing.assert_array_equal(read_parquet(tmp_path / "t.parquet").as_numbers(0), [1, np.nan, np.nan])


@pytest.mark.parametrize(
    ("true", "false"), [("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("tRue", "faLse")]
)
def test_true_and_false_are_one_and_zero(read, true, false):
    loaded = read(EDGES, f"id,topic,size,old\na,x,1,{true}\nb,y,2,{false}\nc,x,3,{true}\nd,y,4,\n")
    numbers = read(EDGES, "id,topic,size,old\na,x,1,1\nb,y,2,0\nc,x,3,1\nd,y,4,\n")
    assert_same_graph(loaded.graph, numbers.graph)
    assert notes_with(loaded, "nodes.csv: true and false are the numbers 1 and 0: 'old'.")
    assert not notes_with(numbers, "true and false")


def test_other_words_for_true_and_false_are_text(read):
    for cells in ("yes no yes no", "True False 1 0", "true false yes true"):
        nodes = "id,topic,size,old\n" + "".join(
            f"{name},{name in 'ac'},{row},{cell}\n"
            for row, (name, cell) in enumerate(zip("abcd", cells.split(), strict=True))
        )
        assert notes_with(read(EDGES, nodes), "text columns, not used as features: 'old'")


@pytest.mark.filterwarnings("error")
def test_columns_of_numbers_and_booleans_of_another_library_have_the_same_values():
    """As arrays: ids that pandas turned into floats, and an index by its name in Parquet."""
    edges = Table("edges", ("source", "target"), [np.array([1.0, 2.0]), np.array([2, 3])])
    cells = [np.array([1, 2, 3]), np.array([True, False, True]), np.array([0.5, np.nan, 1.5]), np.array([5, 6, 7])]
    nodes = Table("nodes", ("id", "old", "size", "__index_level_0__"), cells)
    loaded = build_graph(edges, nodes, TableSchema(), name="graph")
    assert loaded.encoding.feature_names == ["old", "size"]
    assert dense(loaded.graph)[1].tolist() == pytest.approx([-(2**0.5), 0])
    assert loaded.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


# --- decimal commas ---


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_comma_is_read_where_another_character_separates_cells(read, delimiter):
    rows = [["id", "topic", "size", "share"], ["a", "x", "3,14", "1,000"], ["b", "y", "2", "0,5"]]
    rows += [["c", "x", "-1e3", ""], ["d", "y", "7,", ",25"]]
    edges = [["source", "target", "weight"], ["a", "b", "0,5"], ["b", "c", "1"], ["c", "d", "2,25"]]

    def text(rows, delimiter):
        return "\n".join(delimiter.join(row) for row in rows)

    loaded = read(text(edges, delimiter), text(rows, delimiter))
    for row in (*rows, *edges):
        row[:] = [cell.replace(",", ".") for cell in row]
    assert_same_graph(loaded.graph, read(text(edges, ","), text(rows, ",")).graph)
    assert notes_with(loaded, f"nodes.csv: cells are separated by {delimiter!r} and numbers have a decimal comma")


@pytest.mark.parametrize("cells", [["1,234", "5,678"], ["1,234,567", "1"], ["1.234,5", "2"], ["12,5 kg", "3"]])
def test_thousands_separators_stay_text(read, cells):
    nodes = "id;topic;size;price\n" + "".join(
        f"{name};{topic};1;{cell}\n" for name, topic, cell in zip("abcd", "xyxy", cells * 2, strict=True)
    )
    loaded = read(EDGES, nodes)
    assert notes_with(loaded, "text columns, not used as features: 'price'")
    assert not notes_with(loaded, "decimal comma")


def test_point_before_three_digits_is_no_number_beside_decimal_commas(read):
    """It may separate thousands: 1.234 is 1234 for the spreadsheet that writes 3,14."""
    nodes = "id;topic;size;price;factor\na;x;3,14;1.234;0.5\nb;y;2,5;5.678;1.234\nc;x;1;9;1\nd;y;1;9;1\n"
    loaded = read(EDGES, nodes)
    assert notes_with(loaded, "text columns, not used as features: 'price'")
    assert loaded.encoding.feature_names == ["size", "factor"]


def test_comma_in_quotes_is_text_where_commas_separate_cells(read):
    nodes = 'id,topic,size,price\na,x,1,"3,14"\nb,y,2,"2,5"\nc,x,1,"1,5"\nd,y,1,"1,5"\n'
    assert notes_with(read(EDGES, nodes), "text columns, not used as features: 'price'")


# --- ids that are integers in one table and floats in the other ---


@pytest.mark.parametrize(("ids", "endpoints"), [("1 2 3 4", "1.0 2.0 3.0 4.0"), ("1.0 2.0 3.0 4.0", "1 2 3 4")])
def test_integer_ids_match_floats(read, ids, endpoints):
    ids, endpoints = ids.split(), endpoints.split()
    nodes, edges = NODES, "source,target\n"
    for letter, node_id in zip("abcd", ids, strict=True):
        nodes = nodes.replace(f"\n{letter},", f"\n{node_id},")
    edges += "".join(f"{first},{second}\n" for first, second in pairwise(endpoints))
    loaded = read(edges, nodes)
    assert loaded.graph.node_ids == ("1", "2", "3", "4")
    assert (loaded.graph.adjacency != read(EDGES, NODES).graph.adjacency).nnz == 0
    if "." in ids[0]:
        assert notes_with(loaded, "nodes.csv, column 'id': ids are read without .0, such as '1.0'.")
    else:
        assert notes_with(loaded, "column 'source': 3 ids matched with or without the decimals .0, such as '1.0'.")


def test_ids_that_match_exactly_are_never_shortened(read):
    """1 and 1.0 may be two versions of something."""
    nodes = "id,topic,size\n1,x,1\n1.0,y,2\n2,x,3\n3,y,4\n"
    loaded = read("source,target\n1,2\n1.0,3\n", nodes)
    assert loaded.graph.adjacency.toarray()[[0, 1, 0, 1], [2, 3, 3, 2]].tolist() == [1, 1, 0, 0]
    assert not notes_with(loaded, "decimals")


def test_new_node_with_the_id_of_an_old_one_as_a_float_is_no_new_node(read):
    loaded = read("source,target\n1,2\n", "id,topic,size\n1,x,1\n2,y,2\n3,x,3\n4,y,4\n")
    new = Table("new", ("id", "size"), [["5.0", "1.0"], ["1", "1"]])
    with pytest.raises(InvalidInput, match="row 2, column 'id' must be a new node, but '1' is in the model's graph"):
        extend_graph(loaded.graph, Table("more", ("source", "target"), [["5"], ["1.0"]]), new, LABEL, loaded.encoding)
    new = Table("new", ("id", "size"), [["5.0"], ["1"]])
    more = Table("more", ("source", "target"), [["5"], ["1.0"]])
    assert extend_graph(loaded.graph, more, new, LABEL, loaded.encoding).graph.adjacency[4, 0] == 1


def test_class_of_another_table_matches_as_a_float(read):
    loaded = read(EDGES, NODES.replace("x", "1.0").replace("y", "2.0"))
    again = read(EDGES, NODES.replace("x", "1").replace("y", "2"), loaded.schema, encoding=loaded.encoding,
                 class_names=loaded.graph.class_names)  # fmt: skip
    assert again.graph.labels.tolist() == loaded.graph.labels.tolist()
    assert notes_with(again, "classes matched with or without the decimals .0: 2.")


# --- small classes and other labels ---


def many_classes(counts):
    cells = [name for name, count in counts.items() for _ in range(count)]
    rows = [f"n{row},{cell},{row}\n" for row, cell in enumerate(cells)]
    return "source,target\nn0,n1\n", "id,topic,size\n" + "".join(rows)


def test_all_classes_with_one_node_are_named_at_once_and_can_be_dropped(read):
    single = [f"rare{number}" for number in range(12)]
    tables = many_classes({"x": 4, "y": 3} | dict.fromkeys(single, 1))
    with pytest.raises(InvalidInput) as raised:
        read(*tables)
    assert all(repr(name) in str(raised.value) for name in single)
    assert "12 classes" in str(raised.value)
    loaded = read(*tables, TableSchema(label="topic", min_class=2))
    assert loaded.graph.class_names == ("x", "y")
    assert np.bincount(loaded.graph.labels + 1).tolist() == [12, 4, 3]
    (note,) = notes_with(loaded, "classes with fewer than 2 labelled nodes are treated as unknown")
    assert all(f"'{name}' (1)" in note for name in single)


def test_class_that_was_too_small_in_training_is_unknown_in_another_table(read):
    loaded = read(*many_classes({"x": 4, "y": 3, "z": 2}), TableSchema(label="topic", min_class=3))
    again = read(*many_classes({"x": 1, "z": 5}), loaded.schema, encoding=loaded.encoding, class_names=("x", "y"))
    assert again.graph.labels.tolist() == [0, -1, -1, -1, -1, -1]
    assert notes_with(again, "5 labels read as unknown: 'z' (5).")
    with pytest.raises(InvalidInput, match="must be one of 'x', 'y', got 'w'"):
        read(*many_classes({"w": 1}), loaded.schema, encoding=loaded.encoding, class_names=("x", "y"))


def test_nothing_is_dropped_without_min_class(read):
    loaded = read(*many_classes({"x": 2, "y": 2}))
    assert loaded.schema.dropped_classes == ()
    assert not notes_with(loaded, "fewer than")
    with pytest.raises(InvalidInput, match="--min-class must be >= 1, got 0"):
        TableSchema(min_class=0)


@pytest.mark.parametrize(
    "values", [["0.5", "1", "1.5", "2"], ["1997", "1998", "2001"], ["1.0", "2.0"], ["v1.5", "2.5"]]
)
def test_numbers_with_few_values_are_classes(read, values):
    assert set(read(*many_classes(dict.fromkeys(values, 3))).graph.class_names) == set(values)


def test_many_numbers_with_fractions_are_a_regression_target_although_each_occurs_twice(read):
    values = {f"{number / 10}": 2 for number in range(60)}
    with pytest.raises(
        InvalidInput, match="column 'topic' must contain classes, but looks like a regression target: 60"
    ):
        read(*many_classes(values))


# --- syntax of files ---


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: text.replace(",", "\t").replace("\n", "\r\n").encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: (text + "\n\n  \n").encode(),
        lambda text: (text.replace("\n", ",,\n") + ",,,,\n,,,,\n").encode(),
        lambda text: text.replace("\n", ",\n").replace("size,", "size").replace("target,", "target").encode(),
        lambda text: ("sep=;\r\n" + text.replace(",", ";")).encode(),
    ],
    ids=["BOM", "UTF-16", "UTF-16 BE", "Unicode text of Excel", "Windows", "old Mac", "empty lines", "empty columns",
         "empty cells after the last column", "sep"],
)  # fmt: skip
def test_same_table_in_another_syntax_is_the_same_graph(read, encode):
    nodes, edges = NODES.replace("a,", "ä,"), EDGES.replace("a,", "ä,")
    expected = read(edges, nodes).graph
    loaded = read(encode(edges), encode(nodes))
    assert_same_graph(loaded.graph, expected)


def test_line_breaks_in_quotes_are_kept_with_the_lines_of_the_file(read, tmp_path):
    nodes = 'id,topic,size,text\r\na,x,1,"two\r\nlines"\r\nb,y,2,\r\nc,x,3,"a ""b"""\r\nd,y,4,\r\n'
    assert_same_graph(read(EDGES, nodes).graph, read(EDGES, NODES).graph)
    (tmp_path / "nodes.csv").write_bytes(nodes.encode())
    table = read_csv(tmp_path / "nodes.csv")
    assert table.cells[3][0] == "two\r\nlines"
    assert list(table.line_numbers) == [2, 4, 5, 6]


def test_dates_and_long_texts_are_reported_and_not_used(read):
    nodes = "id,topic,size,day,text\n" + "".join(
        f"{name},{topic},{row},2024-01-0{row + 1},some words {row}\n"
        for row, (name, topic) in enumerate(zip("abcd", "xyxy", strict=True))
    )
    loaded = read(EDGES, nodes)
    assert loaded.encoding.feature_names == ["size"]
    assert notes_with(loaded, "nodes.csv: text columns, not used as features: 'day', 'text'; pass them to --one-hot")


def test_ignored_column_may_be_missing_or_present_in_another_table(read):
    nodes = NODES.replace("size", "size,secret").replace("\n", ",9\n").replace("secret,9", "secret")
    loaded = read(EDGES, nodes, TableSchema(label="topic", ignore=("secret",)))
    for other in (NODES, nodes):
        again = read(EDGES, other, loaded.schema, encoding=loaded.encoding, class_names=("x", "y"))
        assert_same_graph(again.graph, loaded.graph)
        assert not notes_with(again, "secret")
    with pytest.raises(InvalidInput, match=r"nodes\.csv has no column 'secret' for --ignore"):
        read(EDGES, NODES, TableSchema(label="topic", ignore=("secret",)))
