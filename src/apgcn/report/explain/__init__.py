"""The page that explains a trained AP-GCN: its graph, the propagation steps of every node, and their cost.

`payload` computes what the page shows, with the node positions of `layout`; `html` writes the page.
"""

from apgcn.report.explain.html import render_explanation, write_explanation
from apgcn.report.explain.payload import build_payload, check_explainable

__all__ = ["build_payload", "check_explainable", "render_explanation", "write_explanation"]
