"""A reader returns a graph or raises an `ApgcnError`, whatever its input.

`APGCN_EXAMPLES=100000` runs more examples than usual; `scripts/fuzz` tests the same readers guided by coverage.
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
from apgcn.io.csv import read_csv
from apgcn.io.graph_builder import build_graph
from apgcn.io.graphml import read_graphml
from apgcn.io.networkx import from_networkx
from apgcn.io.parquet import read_parquet
from apgcn.io.pyg import from_pyg
from apgcn.io.registry import read_graph
from apgcn.io.schema import TableSchema
from apgcn.io.scipy import from_scipy, read_scipy

fuzz_settings = settings(
    max_examples=int(os.environ.get("APGCN_EXAMPLES", 60)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
COLUMNS = st.sampled_from(["id", "topic", "size", "source", "target", "weight", "text", "", "Unnamed: 0"])
CELLS = st.sampled_from(
    ["a", "b", "c", "", "1", "-1", "nan", "1e999", "x y", '"', "\u0661", "1.0", "1,5", "1.234", "True", "#N/A", "id"]
) | st.text(max_size=5)
SCHEMAS = st.builds(
    TableSchema,
    label=st.none() | COLUMNS,
    id=st.none() | COLUMNS,
    source=st.none() | COLUMNS,
    target=st.none() | COLUMNS,
    weight=st.none() | COLUMNS,
    directed=st.booleans(),
    one_hot=st.lists(COLUMNS, max_size=2),
    bag_of_words=st.lists(COLUMNS, max_size=2),
    ignore=st.lists(COLUMNS, max_size=2),
    min_class=st.integers(1, 3),
)
VALID_SCHEMA = TableSchema(label="topic")
MOSTLY_VALID_SCHEMAS = st.sampled_from([True, True, True, False]).flatmap(
    lambda valid: st.just(VALID_SCHEMA) if valid else SCHEMAS
)
ARRAYS = arrays.arrays(
    dtype=st.sampled_from([np.float32, np.int32, np.int64, np.uint64, np.bool_, np.complex64, "U3", "S2"]),
    shape=arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
)


VALID_ROWS = (
    [["source", "target", "weight"], ["a", "b", "1"], ["b", "c", "0.5"], ["a", "d", "2"]],
    [["id", "topic", "size", "text"], ["a", "x", "1", "red fox"], ["b", "y", "2", ""], ["c", "x", "", "dog"],
     ["d", "y", "7", "dog fox"]],
)  # fmt: skip


@st.composite
def tables(draw):
    """Two valid tables with some cells replaced, and some rows repeated or removed."""
    both = []
    for valid_rows in VALID_ROWS:
        rows = [list(row) for row in valid_rows]
        for _ in range(draw(st.integers(0, 2))):
            row = draw(st.sampled_from(rows))
            row[draw(st.integers(0, len(row) - 1))] = draw(CELLS)
        if draw(st.integers(0, 4)) == 0:
            rows = [rows[0], *draw(st.lists(st.sampled_from(rows[1:]), max_size=6))]
        both.append(rows)
    return both


def as_csv(rows, delimiter):
    return "\n".join(delimiter.join(row) for row in rows).encode("utf-8", "surrogatepass")


def test_csv_is_read_or_rejected(tmp_path):
    successes = []

    @fuzz_settings
    @given(tables(), st.sampled_from([",", ";", "\t", "|"]), MOSTLY_VALID_SCHEMAS, st.binary())
    def read(both, delimiter, schema, raw):
        files = [as_csv(rows, delimiter) for rows in both]
        if len(raw) > 50:
            files[0] = raw
        elif raw[:1] > b"\x7f":
            files[1] = files[1].decode("utf-8", "replace").encode("utf-16")
        for name, content in zip(("edges.csv", "nodes.csv"), files, strict=True):
            (tmp_path / name).write_bytes(content)
        successes.append(False)
        with suppress(ApgcnError):
            build_graph(read_csv(tmp_path / "edges.csv"), read_csv(tmp_path / "nodes.csv"), schema, name="graph")
            successes[-1] = True

    read()
    assert 0 < sum(successes) < len(successes), "some examples must be read, and some rejected"


CELL_TYPES = {
    "text": st.text(max_size=3), "floats": st.floats(), "integers": st.integers(-(2**63), 2**63 - 1),
    "booleans": st.booleans(), "bytes": st.binary(max_size=3), "lists": st.lists(st.integers(0, 9), max_size=2),
    "dates": st.dates(), "decimals": st.decimals(-99, 99, places=2),
}  # fmt: skip


@st.composite
def parquet_bytes(draw, valid_rows):
    """A valid table, of which one column may have another type, and some bytes may be changed."""
    header, *rows = valid_rows
    columns = {name: pyarrow.array(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}
    if draw(st.booleans()):
        cell_type = draw(st.sampled_from(list(CELL_TYPES.values())))
        cells = draw(st.lists(st.none() | cell_type, min_size=len(rows), max_size=len(rows)))
        columns[draw(st.sampled_from([*header, "new"]))] = pyarrow.array(cells)
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    content = bytearray(file.getvalue())
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=2)) if draw(st.booleans()) else []:
        content[place] = draw(st.integers(0, 255))
    return bytes(content)


def test_parquet_is_read_or_rejected(tmp_path):
    successes = []

    @fuzz_settings
    @given(parquet_bytes(VALID_ROWS[0]), parquet_bytes(VALID_ROWS[1]), MOSTLY_VALID_SCHEMAS)
    def read(edges, nodes, schema):
        (tmp_path / "edges.parquet").write_bytes(edges)
        (tmp_path / "nodes.parquet").write_bytes(nodes)
        successes.append(False)
        with suppress(ApgcnError):
            pair = read_parquet(tmp_path / "edges.parquet"), read_parquet(tmp_path / "nodes.parquet")
            build_graph(*pair, schema, name="graph")
            successes[-1] = True

    read()
    assert 0 < sum(successes) < len(successes), "some examples must be read, and some rejected"


@st.composite
def networkx_graphs(draw):
    graph_class = draw(st.sampled_from([networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]))
    nodes = st.sampled_from(["a", "b", 1, "1", (2, 3)])
    values = CELLS | st.integers() | st.floats() | st.booleans() | st.none() | st.just([]) | st.just(1j)
    attributes = st.dictionaries(st.sampled_from(["topic", "size", "weight", "id"]), values, max_size=3)
    graph = graph_class()
    size = draw(st.booleans())
    for node, node_attributes in draw(st.lists(st.tuples(nodes, attributes), max_size=5)):
        graph.add_node(node, **({"size": 1.0} if size else {}) | node_attributes)
    for first, second, edge_attributes in draw(st.lists(st.tuples(nodes, nodes, attributes), max_size=5)):
        graph.add_edge(first, second, **edge_attributes)
    return graph


@fuzz_settings
@given(graph=networkx_graphs(), label=st.sampled_from([None, "topic"]), directed=st.booleans())
def test_networkx_is_converted_or_rejected(graph, label, directed):
    with suppress(ApgcnError):
        from_networkx(graph, TableSchema(label=label, directed=directed))


@fuzz_settings
@given(graph=networkx_graphs(), changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
def test_graphml_is_read_or_rejected(tmp_path, graph, changes):
    with suppress(networkx.NetworkXError, TypeError, ValueError):  # what networkx itself cannot write
        networkx.write_graphml(graph, tmp_path / "graph.graphml")
        content = bytearray((tmp_path / "graph.graphml").read_bytes())
        for place, value in changes:
            content[place % len(content)] = value
        (tmp_path / "graph.graphml").write_bytes(content)
    if (tmp_path / "graph.graphml").exists():
        with suppress(ApgcnError):
            read_graphml(tmp_path / "graph.graphml", TableSchema(label="topic"))


@fuzz_settings
@given(
    members=st.dictionaries(
        st.sampled_from([
            *(f"{matrix}_{array}" for matrix in ("adj", "attr") for array in ("data", "indices", "indptr", "shape")),
            "labels", "class_names", "node_names", "attr_dense", "node_names_offsets", "node_names_bytes",
        ]),
        ARRAYS,
    ),
    directed=st.booleans(),
)  # fmt: skip
def test_npz_is_read_or_rejected(tmp_path, members, directed):
    valid = {"adj_data": np.ones(1), "adj_indices": np.zeros(1, int), "adj_indptr": np.array([0, 1, 1]),
             "adj_shape": np.array([2, 2]), "attr_dense": np.eye(2), "labels": np.array([0, 1])}  # fmt: skip
    np.savez(tmp_path / "graph.npz", **(valid | members))
    with suppress(ApgcnError):
        read_npz(tmp_path / "graph.npz")
        read_graph(tmp_path / "graph.npz", TableSchema(directed=directed))


@fuzz_settings
@given(members=st.dictionaries(st.sampled_from(["data", "indices", "indptr", "shape", "format", "row", "col"]), ARRAYS))
def test_scipy_is_read_or_rejected(tmp_path, members):
    valid = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1]), "shape": np.array([2, 2])}
    np.savez(tmp_path / "matrix.npz", **({"format": np.array("csr")} | valid | members))
    with suppress(ApgcnError):
        from_scipy(sparse.csr_matrix(read_scipy(tmp_path / "matrix.npz")), np.eye(2))


@fuzz_settings
@given(attributes=st.dictionaries(st.sampled_from(["x", "edge_index", "y", "edge_weight"]), ARRAYS))
def test_pyg_data_is_converted_or_rejected(attributes):
    valid = {"x": torch.eye(2), "edge_index": torch.tensor([[0], [1]]), "y": torch.tensor([0, 1])}
    numeric = {name: torch.as_tensor(array.copy()) for name, array in attributes.items() if array.dtype.kind in "fiubc"}
    with suppress(ApgcnError):
        from_pyg(Data(**(valid | numeric)))


def test_reader_that_raises_another_error_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("apgcn.io.csv.detect_delimiter", lambda text: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        test_csv_is_read_or_rejected(tmp_path)
