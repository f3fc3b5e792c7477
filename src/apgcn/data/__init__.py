"""Benchmark graphs by name.

>>> from apgcn import datasets
>>> datasets.load("cora")
Graph('cora', nodes=2708, directed_edges=5429, features=1433, classes=7)
"""

from __future__ import annotations

from apgcn.data.cora import read_cora
from apgcn.data.download import fetch
from apgcn.data.graph import Graph
from apgcn.data.npz import read_npz
from apgcn.data.registry import AMAZON_GRAPHS, CATALOGUE, CITATION_GRAPHS, Dataset, describe

__all__ = ["AMAZON_GRAPHS", "CATALOGUE", "CITATION_GRAPHS", "Dataset", "describe", "load"]


def load(name: str) -> Graph:
    """The graph as published, before cleaning; downloaded on first use unless it is embedded.

    Raises
    ------
    UnknownName
        If the catalogue has no such graph; the message names the nearest one.
    MissingFile, BrokenFile
        If its file cannot be had, or is not the published one.
    """
    dataset = describe(name)
    if dataset.embedded:
        return read_cora()
    return read_npz(fetch(dataset), name=dataset.name)
