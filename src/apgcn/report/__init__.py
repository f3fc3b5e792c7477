"""Reports for readers, computed from records and trained models.

Start with `report_artifacts` (`sections`), which selects the tables and figures of a store. `csv`, `latex` and
`markdown` write them as text, `html` as a page with the plots of `plots`. The package `explain` writes the page about
one trained model: its graph, and the propagation steps of every node. `page` renders both pages as single files that
load nothing from the network.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apgcn.report.csv import to_csv
    from apgcn.report.html import write_report
    from apgcn.report.latex import to_latex
    from apgcn.report.markdown import to_markdown
    from apgcn.report.sections import report_artifacts

_MODULES = {
    "report_artifacts": "sections",
    "to_csv": "csv",
    "to_latex": "latex",
    "to_markdown": "markdown",
    "write_report": "html",
}

__all__ = ["report_artifacts", "to_csv", "to_latex", "to_markdown", "write_report"]


def __getattr__(name: str) -> Any:
    """Import on first use: the text formats need no plotly, and the explanation of a model needs no store."""
    if name not in _MODULES:
        raise AttributeError(f"module 'apgcn.report' has no attribute {name!r}")
    return getattr(import_module(f"apgcn.report.{_MODULES[name]}"), name)
