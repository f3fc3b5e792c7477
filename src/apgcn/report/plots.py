"""Panels as plotly figures, in colours that stand out on a light and on a dark background."""

from __future__ import annotations

from html import escape
from typing import Any

from apgcn.benchmark.artifacts import Panel, Series
from apgcn.errors import MissingPackage

COLOURS = ("#4c8bf5", "#e8684a", "#2fa36b", "#b07cd8", "#d9a400", "#2bb3c0", "#d85c9e")


def plotly_figure(panel: Panel) -> dict[str, Any]:
    """The plotly figure of a panel as JSON values.

    Titles and names are escaped, because plotly interprets tags in them.
    """
    graph_objects = _import_plotly()
    is_single = len(panel.series) == 1
    figure = graph_objects.Figure()
    for number, series in enumerate(panel.series):
        figure.add_trace(_trace(graph_objects, series, COLOURS[number % len(COLOURS)], is_single=is_single))
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 10, "t": 10, "b": 60},
        height=300,
        bargap=0.15,
        hovermode="x unified" if panel.log_x else "closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        showlegend=len(panel.series) > 1,
    )
    figure.update_xaxes(title_text=escape(panel.x_title), type="log" if panel.log_x else "linear", automargin=True)
    figure.update_yaxes(
        title_text=escape(panel.y_title), automargin=True, rangemode="tozero" if _has_bars(panel) else None
    )
    if panel.y2_title:
        figure.update_traces(yaxis="y2", selector={"type": "scatter"})
        right_axis = {
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "tickmode": "auto",
            "rangemode": "tozero",
            "automargin": True,
        }
        figure.update_layout(yaxis2={"title": {"text": escape(panel.y2_title)}, **right_axis})
    if panel.log_x:
        ticks = sorted({x for series in panel.series for x in series.x})
        figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], tickangle=-45)
    elif _has_bars(panel):
        figure.update_xaxes(dtick=1)
    return _as_json_values(figure.to_plotly_json())


def _has_bars(panel: Panel) -> bool:
    return any(series.kind == "bars" for series in panel.series)


def _trace(graph_objects: Any, series: Series, colour: str, *, is_single: bool) -> Any:
    common = {
        "name": escape(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "hovertemplate": "%{x:.3~g}: %{y:.4~g}",
    }
    if series.kind == "bars":
        return graph_objects.Bar(**common, marker={"color": colour, "opacity": 0.55})
    has_markers = len(series.x) < 20
    error_bars = None
    if series.half_widths and any(width is not None for width in series.half_widths):
        error_bars = {"type": "data", "array": [width or 0.0 for width in series.half_widths], "thickness": 1}
    return graph_objects.Scatter(
        **common,
        mode="lines+markers" if has_markers else "lines",
        line={"color": colour, "width": 2, "shape": "linear"},
        error_y=error_bars,
        fill="tozeroy" if is_single and not has_markers else None,
    )


def _as_json_values(value: Any) -> Any:
    """Plotly's containers as lists and dictionaries."""
    if isinstance(value, dict):
        return {name: _as_json_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json_values(inner) for inner in value]
    return value


def plotly_js() -> str:
    """The JavaScript of plotly, for inclusion in a page."""
    _import_plotly()
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _import_plotly() -> Any:
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise MissingPackage('an HTML report needs plotly and jinja2: pip install "apgcn[report]"') from error
    return plotly.graph_objects
