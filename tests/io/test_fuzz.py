"""Whatever a reader is given, it reads it or says in words why not. `scripts/fuzz` tries the same, guided by coverage.

`APGCN_EXAMPLES=100000` tries more than the usual number of examples.
"""

import io
import os
from contextlib import suppress

import networkx
import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pyarrow import parquet
from scipy import sparse
from torch_geometric.data import Data

from apgcn.data.npz import read_npz
from apgcn.errors import ApgcnError
from apgcn.io.build_graph import TableSchema, build_graph
from apgcn.io.csv import read_csv
from apgcn.io.graphml import read_graphml
from apgcn.io.networkx import from_networkx
from apgcn.io.parquet import read_parquet
from apgcn.io.pyg import from_pyg
from apgcn.io.registry import read_graph
from apgcn.io.scipy import from_scipy, read_scipy

many = settings(
    max_examples=int(os.environ.get("APGCN_EXAMPLES", 60)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
COLUMNS = st.sampled_from(["id", "topic", "size", "source", "target", "weight", "text", ""])
CELLS = st.sampled_from(["a", "b", "c", "", "1", "-1", "nan", "1e999", "x y", '"', "\u0661"]) | st.text(max_size=5)
READINGS = st.builds(
    TableSchema,
    label=st.none() | COLUMNS,
    id=st.none() | COLUMNS,
    source=st.none() | COLUMNS,
    target=st.none() | COLUMNS,
    weight=st.none() | COLUMNS,
    directed=st.booleans(),
    one_hot=st.lists(COLUMNS, max_size=2),
    words=st.lists(COLUMNS, max_size=2),
    ignore=st.lists(COLUMNS, max_size=2),
)
GOOD = TableSchema(label="topic")
MOSTLY_GOOD = st.sampled_from([True, True, True, False]).flatmap(lambda good: st.just(GOOD) if good else READINGS)
ARRAYS = arrays.arrays(
    dtype=st.sampled_from([np.float32, np.int32, np.int64, np.uint64, np.bool_, np.complex64, "U3", "S2"]),
    shape=arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
)


USUAL = (
    [["source", "target", "weight"], ["a", "b", "1"], ["b", "c", "0.5"], ["a", "d", "2"]],
    [["id", "topic", "size", "text"], ["a", "x", "1", "red fox"], ["b", "y", "2", ""], ["c", "x", "", "dog"],
     ["d", "y", "7", "dog fox"]],
)  # fmt: skip


@st.composite
def tables(draw):
    """Two good tables, some cells of which are exchanged, and some rows repeated or left out; or any bytes."""
    made = []
    for usual in USUAL:
        rows = [list(row) for row in usual]
        for _ in range(draw(st.integers(0, 2))):
            row = draw(st.sampled_from(rows))
            row[draw(st.integers(0, len(row) - 1))] = draw(CELLS)
        if draw(st.integers(0, 4)) == 0:
            rows = [rows[0], *draw(st.lists(st.sampled_from(rows[1:]), max_size=6))]
        made.append(rows)
    return made


def as_csv(rows, delimiter):
    return "\n".join(delimiter.join(row) for row in rows).encode("utf-8", "surrogatepass")


def test_csv(tmp_path):
    made = []

    @many
    @given(tables(), st.sampled_from([",", ";", "\t", "|"]), MOSTLY_GOOD, st.binary())
    def tried(both, delimiter, schema, rng):
        contents = [as_csv(rows, delimiter) for rows in both]
        if len(rng) > 50:
            contents[0] = rng
        for name, content in zip(("edges.csv", "nodes.csv"), contents, strict=True):
            (tmp_path / name).write_bytes(content)
        made.append(False)
        with suppress(ApgcnError):
            build_graph(read_csv(tmp_path / "edges.csv"), read_csv(tmp_path / "nodes.csv"), schema, name="graph")
            made[-1] = True

    tried()
    assert 0 < sum(made) < len(made), "examples that all end at the door show little"


KINDS = {
    "text": st.text(max_size=3), "floats": st.floats(), "integers": st.integers(-(2**63), 2**63 - 1),
    "booleans": st.booleans(), "bytes": st.binary(max_size=3), "lists": st.lists(st.integers(0, 9), max_size=2),
    "dates": st.dates(), "decimals": st.decimals(-99, 99, places=2),
}  # fmt: skip


@st.composite
def parquet_bytes(draw, usual):
    """A good table, one column of which may be of another kind, and some bytes of which may be changed."""
    header, *rows = usual
    columns = {name: pyarrow.array(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}
    if draw(st.booleans()):
        kind = draw(st.sampled_from(list(KINDS.values())))
        cells = draw(st.lists(st.none() | kind, min_size=len(rows), max_size=len(rows)))
        columns[draw(st.sampled_from([*header, "new"]))] = pyarrow.array(cells)
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    content = bytearray(file.getvalue())
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=2)) if draw(st.booleans()) else []:
        content[place] = draw(st.integers(0, 255))
    return bytes(content)


def test_parquet(tmp_path):
    made = []

    @many
    @given(parquet_bytes(USUAL[0]), parquet_bytes(USUAL[1]), MOSTLY_GOOD)
    def tried(edges, nodes, schema):
        (tmp_path / "edges.parquet").write_bytes(edges)
        (tmp_path / "nodes.parquet").write_bytes(nodes)
        made.append(False)
        with suppress(ApgcnError):
            pair = read_parquet(tmp_path / "edges.parquet"), read_parquet(tmp_path / "nodes.parquet")
            build_graph(*pair, schema, name="graph")
            made[-1] = True

    tried()
    assert 0 < sum(made) < len(made), "examples that all end at the door show little"


@st.composite
def networkx_graphs(draw):
    kind = draw(st.sampled_from([networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]))
    nodes = st.sampled_from(["a", "b", 1, "1", (2, 3)])
    values = CELLS | st.integers() | st.floats() | st.booleans() | st.none() | st.just([]) | st.just(1j)
    attributes = st.dictionaries(st.sampled_from(["topic", "size", "weight", "id"]), values, max_size=3)
    graph = kind()
    size = draw(st.booleans())
    for node, own in draw(st.lists(st.tuples(nodes, attributes), max_size=5)):
        graph.add_node(node, **({"size": 1.0} if size else {}) | own)
    for first, second, own in draw(st.lists(st.tuples(nodes, nodes, attributes), max_size=5)):
        graph.add_edge(first, second, **own)
    return graph


@many
@given(graph=networkx_graphs(), label=st.sampled_from([None, "topic"]), directed=st.booleans())
def test_networkx(graph, label, directed):
    with suppress(ApgcnError):
        from_networkx(graph, TableSchema(label=label, directed=directed))


@many
@given(graph=networkx_graphs(), changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
def test_graphml(tmp_path, graph, changes):
    with suppress(networkx.NetworkXError, TypeError, ValueError):  # what networkx itself cannot write
        networkx.write_graphml(graph, tmp_path / "graph.graphml")
        content = bytearray((tmp_path / "graph.graphml").read_bytes())
        for place, value in changes:
            content[place % len(content)] = value
        (tmp_path / "graph.graphml").write_bytes(content)
    if (tmp_path / "graph.graphml").exists():
        with suppress(ApgcnError):
            read_graphml(tmp_path / "graph.graphml", TableSchema(label="topic"))


@many
@given(
    members=st.dictionaries(
        st.sampled_from([*(f"{of}_{part}" for of in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")),
                         "labels", "class_names", "node_names", "attr_dense"]),
        ARRAYS,
    ),
    directed=st.booleans(),
)  # fmt: skip
def test_our_archive(tmp_path, members, directed):
    usual = {"adj_data": np.ones(1), "adj_indices": np.zeros(1, int), "adj_indptr": np.array([0, 1, 1]),
             "adj_shape": np.array([2, 2]), "attr_dense": np.eye(2), "labels": np.array([0, 1])}  # fmt: skip
    np.savez(tmp_path / "graph.npz", **(usual | members))
    with suppress(ApgcnError):
        read_npz(tmp_path / "graph.npz")
        read_graph(tmp_path / "graph.npz", TableSchema(directed=directed))


@many
@given(members=st.dictionaries(st.sampled_from(["data", "indices", "indptr", "shape", "format", "row", "col"]), ARRAYS))
def test_scipy(tmp_path, members):
    usual = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1]), "shape": np.array([2, 2])}
    np.savez(tmp_path / "matrix.npz", **({"format": np.array("csr")} | usual | members))
    with suppress(ApgcnError):
        from_scipy(sparse.csr_matrix(read_scipy(tmp_path / "matrix.npz")), np.eye(2))


@many
@given(parts=st.dictionaries(st.sampled_from(["x", "edge_index", "y", "edge_weight"]), ARRAYS))
def test_data_of_pytorch_geometric(parts):
    usual = {"x": torch.eye(2), "edge_index": torch.tensor([[0], [1]]), "y": torch.tensor([0, 1])}
    numbers = {name: torch.as_tensor(array.copy()) for name, array in parts.items() if array.dtype.kind in "fiubc"}
    with suppress(ApgcnError):
        from_pyg(Data(**(usual | numbers)))


def test_these_tests_can_fail(tmp_path, monkeypatch):
    """A reader that lets another error through is found."""
    monkeypatch.setattr("apgcn.io.csv.delimiter_of", lambda text: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        test_csv(tmp_path)
