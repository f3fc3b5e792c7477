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

from apgcn.errors import ApgcnError
from apgcn.io.assembling import Reading, assemble
from apgcn.io.csv_files import read_csv
from apgcn.io.graphml import read_graphml
from apgcn.io.networkx_graphs import from_networkx
from apgcn.io.npz import read_npz
from apgcn.io.own import read_graph
from apgcn.io.parquet import read_parquet
from apgcn.io.pyg import from_pyg
from apgcn.io.scipy_graphs import from_scipy, read_scipy

many = settings(
    max_examples=int(os.environ.get("APGCN_EXAMPLES", 60)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
COLUMNS = st.sampled_from(["id", "topic", "size", "source", "target", "weight", "text", ""])
CELLS = st.sampled_from(["a", "b", "c", "", "1", "-1", "nan", "1e999", "x y", '"', "\u0661"]) | st.text(max_size=5)
READINGS = st.builds(
    Reading,
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
ARRAYS = arrays.arrays(
    dtype=st.sampled_from([np.float32, np.int32, np.int64, np.uint64, np.bool_, np.complex64, "U3", "S2"]),
    shape=arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
)


@st.composite
def csv_bytes(draw):
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    width = draw(st.integers(1, 4))
    header = draw(st.lists(COLUMNS, min_size=width, max_size=width))
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width + draw(st.integers(0, 1))), max_size=6))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    text = "\n".join(delimiter.join(row) for row in [header, *rows])
    return text.encode("utf-8", "surrogatepass")


@many
@given(edges=csv_bytes(), nodes=csv_bytes(), reading=READINGS)
def test_csv(tmp_path, edges, nodes, reading):
    (tmp_path / "edges.csv").write_bytes(edges)
    (tmp_path / "nodes.csv").write_bytes(nodes)
    with suppress(ApgcnError):
        assemble(read_csv(tmp_path / "edges.csv"), read_csv(tmp_path / "nodes.csv"), reading, name="graph")


@st.composite
def parquet_bytes(draw):
    kinds = [
        st.text(max_size=3), st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.binary(max_size=3),
        st.lists(st.integers(0, 9), max_size=2), st.dates(), st.decimals(-99, 99, places=2),
    ]  # fmt: skip
    names = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    columns = [
        pyarrow.array(draw(st.lists(st.none() | draw(st.sampled_from(kinds)), min_size=3, max_size=3))) for _ in names
    ]
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(columns, names), file)
    content = bytearray(file.getvalue())
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=2)):
        content[place] = draw(st.integers(0, 255))
    return bytes(content)


@many
@given(edges=parquet_bytes(), nodes=parquet_bytes(), reading=READINGS)
def test_parquet(tmp_path, edges, nodes, reading):
    (tmp_path / "edges.parquet").write_bytes(edges)
    (tmp_path / "nodes.parquet").write_bytes(nodes)
    with suppress(ApgcnError):
        tables = read_parquet(tmp_path / "edges.parquet"), read_parquet(tmp_path / "nodes.parquet")
        assemble(*tables, reading, name="graph")


@st.composite
def networkx_graphs(draw):
    kind = draw(st.sampled_from([networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]))
    nodes = st.sampled_from(["a", "b", 1, "1", (2, 3)])
    values = CELLS | st.integers() | st.floats() | st.booleans() | st.none() | st.just([]) | st.just(1j)
    attributes = st.dictionaries(st.sampled_from(["topic", "size", "weight", "id"]), values, max_size=3)
    graph = kind()
    for node, own in draw(st.lists(st.tuples(nodes, attributes), max_size=5)):
        graph.add_node(node, **own)
    for first, second, own in draw(st.lists(st.tuples(nodes, nodes, attributes), max_size=5)):
        graph.add_edge(first, second, **own)
    return graph


@many
@given(graph=networkx_graphs(), label=st.sampled_from([None, "topic"]), directed=st.booleans())
def test_networkx(graph, label, directed):
    with suppress(ApgcnError):
        from_networkx(graph, Reading(label=label, directed=directed))


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
            read_graphml(tmp_path / "graph.graphml", Reading(label="topic"))


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
        read_graph(tmp_path / "graph.npz", Reading(directed=directed))


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
    monkeypatch.setattr("apgcn.io.csv_files.delimiter_of", lambda text: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        test_csv.hypothesis.inner_test(tmp_path, b"a,b\n", b"a,b\n", Reading())
