"""Small files with large content: npz archives and Parquet tables are refused before their content is read."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest
from helpers import ROOT
from helpers.graphs import two_communities
from scipy import sparse

from apgcn._utils import limits
from apgcn.cli import run
from apgcn.data.npz import read_npz, write_npz
from apgcn.distributed.streaming_npz import NpzSource
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput
from apgcn.io.parquet import read_parquet
from apgcn.io.scipy import read_scipy, write_scipy

MIB = 2**20


@pytest.fixture
def little_memory(monkeypatch):
    """40 MiB of memory, of which the content of a file may have half."""
    monkeypatch.setattr(limits, "memory_limit", lambda: 40 * MIB)


def test_an_archive_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch, little_memory, capsys):
    np.savez_compressed(tmp_path / "g.npz", labels=np.zeros(3 * MIB))
    assert (tmp_path / "g.npz").stat().st_size < MIB
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *arguments, **options: pytest.fail("it was read"))
    sentence = (
        r"g\.npz must have at most 20,971,520 bytes when it is decompressed, half of the memory .* got 25,165,9\d\d"
    )
    with pytest.raises(BrokenFile, match=sentence):
        read_npz(tmp_path / "g.npz")
    with pytest.raises(InvalidInput, match=sentence):
        read_scipy(tmp_path / "g.npz")
    assert run(["fit", "--graph", str(tmp_path / "g.npz"), "--out", str(tmp_path / "model")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_array_that_a_rank_reads_at_once_must_fit_into_memory(tmp_path, little_memory):
    """The edges and features of an archive are read in chunks, and may be larger."""
    graph = two_communities()
    write_npz(tmp_path / "g.npz", graph)
    with np.load(tmp_path / "g.npz") as archive:
        arrays = dict(archive)
    np.savez_compressed(tmp_path / "g.npz", **{**arrays, "labels": np.zeros(3 * MIB, np.int64)})
    with pytest.raises(ApgcnError, match=r"g\.npz must have at most 20,971,520 bytes .* got 25,165,9\d\d"):
        NpzSource(tmp_path / "g.npz")
    np.savez_compressed(tmp_path / "g.npz", **arrays, unused=np.zeros(3 * MIB))
    assert NpzSource(tmp_path / "g.npz").num_nodes == 60


@pytest.mark.parametrize(
    ("columns", "is_read"),
    [
        ({"id": np.zeros(3 * MIB)}, False),  # a few pages of repetitions
        ({"id": ["x" * MIB] * 30}, True),  # stored once
        ({"id": [["x"] * 3 * MIB]}, False),  # one row
    ],
)
def test_a_table_larger_than_memory_is_refused(tmp_path, monkeypatch, little_memory, columns, is_read):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < MIB
    if not is_read:
        monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *arguments: pytest.fail("it was read"))
    with pytest.raises(InvalidInput, match=r"t\.parquet must have at most 20,971,520 bytes when it is decompressed"):
        read_parquet(tmp_path / "t.parquet")


def test_files_that_fit_into_memory_are_read(tmp_path, little_memory):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    graph = two_communities()
    write_npz(tmp_path / "g.npz", graph)
    assert read_npz(tmp_path / "g.npz").num_nodes == 60
    write_scipy(tmp_path / "m.npz", graph)
    assert (read_scipy(tmp_path / "m.npz") != sparse.csr_matrix(graph.adjacency)).nnz == 0
    names = [f"n{number % 7}" for number in range(20_000)]
    table = arrow.table({"id": names, "kind": arrow.array(names).dictionary_encode(), "x": np.arange(20_000)})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=3_000)
    cells = read_parquet(tmp_path / "t.parquet").cells
    assert cells[0] == cells[1] == names
    np.testing.assert_array_equal(cells[2], np.arange(20_000))
    parquet.write_table(table[:0], tmp_path / "empty.parquet")
    assert len(read_parquet(tmp_path / "empty.parquet")) == 0


def test_damaged_column_chunk_is_an_error_and_not_the_end_of_the_process():
    """pyarrow's `RowGroupMetaData.column` aborts for this file, which fuzzing found: a histogram has another size."""
    pytest.importorskip("pyarrow")
    path = ROOT / "tests" / "fixtures" / "damaged_column.parquet"
    code = (
        "import sys; from pathlib import Path; from apgcn.errors import InvalidInput; "
        "from apgcn.io.parquet import read_parquet\n"
        "try: read_parquet(Path(sys.argv[1]))\n"
        "except InvalidInput as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "must be a Parquet file, but cannot be read as one" in result.stdout
