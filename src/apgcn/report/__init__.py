"""Reports for readers, computed from records and trained models.

Start with `report_artifacts` (`sections`), which selects the tables and figures of a store. `csv`, `latex` and
`markdown` write them as text, `html` as a page with the plots of `plots`. The package `explain` writes the page about
one trained model: its graph, and the propagation steps of every node. `page` renders both pages as single files that
load nothing from the network.
"""

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

if TYPE_CHECKING:
    from apgcn.report.csv import to_csv
    from apgcn.report.html import write_report
    from apgcn.report.latex import to_latex
    from apgcn.report.markdown import to_markdown
    from apgcn.report.sections import report_artifacts

__all__ = ["report_artifacts", "to_csv", "to_latex", "to_markdown", "write_report"]

__getattr__, __dir__ = lazy_names(  # the text formats need no plotly, and the explanation of a model needs no store.
    __name__,
    {
        "csv": ["to_csv"],
        "html": ["write_report"],
        "latex": ["to_latex"],
        "markdown": ["to_markdown"],
        "sections": ["report_artifacts"],
    },
)
