"""What does a person see of a measurement?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from apgcn.cli.render import terminal

PEERS = {"apgcn": "apgcn", "pyg_apgcn": "AP-GCN in PyTorch Geometric", "pyg_appnp": "APPNP in PyTorch Geometric"}


def show_measured(found: Mapping[str, Any]) -> None:
    """What `apgcn bench` found: epochs, whole trainings, and the bars they are held against."""
    console = terminal()
    console.print(f"[bold]{escape(found['hardware'])}[/], {found['device']}, PyTorch {found['versions']['torch']}")
    for graph in found["graphs"]:
        table = Table(
            title=f"{graph['dataset']}: {graph['nodes']:,} nodes, {graph['directed_edges'] // 2:,} edges",
            title_justify="left",
        )
        for name in ("", "runs", "step ms", "evaluation ms", "epoch ms", "middle half", "per run ms"):
            table.add_column(name, justify="left" if not name else "right")
        for epoch in graph["epochs"]:
            spread = f"{epoch['epoch_low']:.2f}-{epoch['epoch_high']:.2f}"
            times = [epoch[part] for part in ("step_ms", "evaluation_ms", "epoch_ms")]
            cells = [f"{one:.2f}" for one in times] + [spread, f"{epoch['epoch_ms'] / epoch['runs']:.2f}"]
            table.add_row(PEERS[epoch["what"]], str(epoch["runs"]), *cells)
        console.print(table)
    for one in found["trainings"]:
        console.print(
            f"{one['runs']} runs on {one['dataset']}, {one['workers']} at a time: {one['seconds']:.1f} s, "
            f"{one['epochs_mean']:.0f} epochs on average, accuracy {100 * one['accuracy_mean']:.2f} %, "
            f"{one['memory'] / 1e9:.2f} GB"
        )
    if found["speedup_over_pyg_apgcn"] is None and any(graph["dataset"] != "synthetic" for graph in found["graphs"]):
        console.print(escape('the comparison needs PyTorch Geometric: pip install "apgcn[pyg]"'))
    if found["device"] == "cpu" and "numba" not in found["versions"]:
        console.print(escape('numba, which makes this faster, is not installed: pip install "apgcn[fast]"'))
    if not found["targets"]:
        return
    bars = Table("what we set out for", "here", "must", "aim", "verdict")
    for line in found["targets"]:
        values = [line["measured"], line["must"], line["aim"]]
        cells = ["" if value is None else f"{value:.3g} {line['unit']}" for value in values]
        bars.add_row(line["what"], *cells, line["verdict"])
    console.print(bars)
