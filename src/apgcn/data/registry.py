"""The benchmark graphs: their sizes, citations, download addresses and checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from apgcn.errors import UnknownName

PPNP = "https://github.com/gasteigerjo/ppnp/raw/master/ppnp/data/"
GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
HETEROPHILOUS = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/"

CITATION_NETWORKS = "Bojchevski and Guennemann, Deep Gaussian Embedding of Graphs, ICLR 2018"
PUBMED = "Namata et al., Query-driven Active Surveying for Collective Classification, MLG 2012"
PITFALLS = "Shchur et al., Pitfalls of Graph Neural Network Evaluation, 2018"
LINQS = "Sen et al., Collective Classification in Network Data, AI Magazine 2008"
PLATONOV = "Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily, ICLR 2023"
PEI = "Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020"
ROZEMBERCZKI = "Rozemberczki et al., Multi-scale Attributed Node Embedding, 2019"

CITATION_GRAPHS = ("citeseer", "cora_ml", "pubmed", "ms_academic")  # of the paper's Table II
AMAZON_GRAPHS = ("amazon_computers", "amazon_photo")  # of its Table III
HETEROPHILOUS_GRAPHS = ("minesweeper", "tolokers", "chameleon_filtered", "squirrel_filtered", "actor")  # of PLATONOV

Metric = Literal["accuracy", "roc_auc"]


@dataclass(frozen=True)
class DatasetInfo:
    """A benchmark graph in the registry.

    `nodes` and `edges` are those of the graph after `clean`, every undirected edge counted once, as in the paper's
    Table I. `visible` is the size of the visible set, see `apgcn.data.splits`.

    A graph with `has_splits` is used as its file has it, with the splits of the file: `clean` and `visible` are not for
    it. `metric` is what its authors judge models by. `license` is that of the publication, where it states one.
    """

    name: str
    title: str
    nodes: int
    edges: int
    features: int
    classes: int
    citation: str
    url: str = ""
    sha256: str = ""
    visible: int = 1500
    embedded: bool = False
    has_splits: bool = False
    metric: Metric = "accuracy"
    license: str = ""

    @property
    def file_name(self) -> str:
        return self.url.rsplit("/", 1)[-1] or f"{self.name}.npz"


DATASETS: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            DatasetInfo(
                name="cora",
                title="Cora",
                nodes=2485,
                edges=5069,
                features=1433,
                classes=7,
                citation=LINQS,
                sha256="2153ae9479203ee439f263ed00965a93ecd3e01d33911d1540ab62ce347b6303",
                embedded=True,
                license="Apache-2.0",
            ),
            DatasetInfo(
                name="citeseer",
                title="Citeseer",
                nodes=2110,
                edges=3668,
                features=3703,
                classes=6,
                citation=LINQS,
                url=PPNP + "citeseer.npz",
                sha256="9c72e32115590d1e6b2701f7af490519c8b2948ade22ec513e262aac3e47f722",
            ),
            DatasetInfo(
                name="cora_ml",
                title="Cora-ML",
                nodes=2810,
                edges=7981,
                features=2879,
                classes=7,
                citation=CITATION_NETWORKS,
                url=PPNP + "cora_ml.npz",
                sha256="e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
            ),
            DatasetInfo(
                name="pubmed",
                title="PubMed",
                nodes=19717,
                edges=44324,
                features=500,
                classes=3,
                citation=PUBMED,
                url=PPNP + "pubmed.npz",
                sha256="91221be5fb4b0519f08d71eecd9afda5e711ac4b7f32d025b9bda1f8db91f3a2",
            ),
            DatasetInfo(
                name="ms_academic",
                title="MS-Academic",
                nodes=18333,
                edges=81894,
                features=6805,
                classes=15,
                citation=PITFALLS,
                url=PPNP + "ms_academic.npz",
                sha256="933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3",
                visible=5000,
            ),
            DatasetInfo(
                name="amazon_computers",
                title="A.Computer",
                nodes=13381,
                edges=245778,
                features=767,
                classes=10,
                citation=PITFALLS,
                url=GNN_BENCHMARK + "amazon_electronics_computers.npz",
                sha256="736ba1d9fd85eac2da83a5ad25c463f04b0031a6ca01563f90a7099d9e8ffb2c",
            ),
            DatasetInfo(
                name="amazon_photo",
                title="A.Photo",
                nodes=7487,
                edges=119043,
                features=745,
                classes=8,
                citation=PITFALLS,
                url=GNN_BENCHMARK + "amazon_electronics_photo.npz",
                sha256="bdb1feb8e6ff42ee44024b04479145029c563fd42fc31bff80af20887ba0439a",
            ),
            DatasetInfo(
                name="minesweeper",
                title="Minesweeper",
                nodes=10000,
                edges=39402,
                features=7,
                classes=2,
                citation=PLATONOV,
                url=HETEROPHILOUS + "minesweeper.npz",
                sha256="e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
                visible=0,
                has_splits=True,
                metric="roc_auc",
                license="MIT",
            ),
            DatasetInfo(
                name="tolokers",
                title="Tolokers",
                nodes=11758,
                edges=519000,
                features=10,
                classes=2,
                citation=PLATONOV,
                url=HETEROPHILOUS + "tolokers.npz",
                sha256="dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667",
                visible=0,
                has_splits=True,
                metric="roc_auc",
                license="MIT",
            ),
            DatasetInfo(
                name="chameleon_filtered",
                title="Chameleon (filtered)",
                nodes=890,
                edges=8854,
                features=2325,
                classes=5,
                citation=f"{ROZEMBERCZKI}; without duplicates by {PLATONOV}",
                url=HETEROPHILOUS + "chameleon_filtered.npz",
                sha256="bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
                visible=0,
                has_splits=True,
                license="MIT",
            ),
            DatasetInfo(
                name="squirrel_filtered",
                title="Squirrel (filtered)",
                nodes=2223,
                edges=46998,
                features=2089,
                classes=5,
                citation=f"{ROZEMBERCZKI}; without duplicates by {PLATONOV}",
                url=HETEROPHILOUS + "squirrel_filtered.npz",
                sha256="f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
                visible=0,
                has_splits=True,
                license="MIT",
            ),
            DatasetInfo(
                name="actor",
                title="Actor",
                nodes=7600,
                edges=26659,
                features=932,
                classes=5,
                citation=f"{PEI}; file of {PLATONOV}",
                url=HETEROPHILOUS + "actor.npz",
                sha256="c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816",
                visible=0,
                has_splits=True,
                license="MIT",
            ),
        )
    }
)


def dataset_info(name: str) -> DatasetInfo:
    """Look up a benchmark graph by name; an unknown one raises `UnknownName`."""
    try:
        return DATASETS[name]
    except (KeyError, TypeError):  # TypeError: not hashable
        raise UnknownName("dataset", name, DATASETS) from None
