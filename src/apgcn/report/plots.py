"""How is a panel drawn? As a plotly figure, in colours that stand out on light and on dark."""

from __future__ import annotations

from html import escape
from typing import Any

from apgcn.benchmark.artifacts import Panel, Series
from apgcn.errors import MissingPackage

COLOURS = ("#4c8bf5", "#e8684a", "#2fa36b", "#b07cd8", "#d9a400", "#2bb3c0", "#d85c9e")


def drawn(panel: Panel) -> dict[str, Any]:
    """The plotly figure of a panel as JSON values.

    Names are text: plotly would read tags in them.
    """
    go = _plotly()
    figure = go.Figure()
    for number, series in enumerate(panel.series):
        figure.add_trace(_trace(go, series, COLOURS[number % len(COLOURS)], several=len(panel.series) > 1))
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
    if panel.line_title:
        figure.update_traces(yaxis="y2", selector={"type": "scatter"})
        right = {
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "tickmode": "auto",
            "rangemode": "tozero",
            "automargin": True,
        }
        figure.update_layout(yaxis2={"title": {"text": escape(panel.line_title)}, **right})
    if panel.log_x:
        ticks = sorted({x for series in panel.series for x in series.x})
        figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], tickangle=-45)
    elif _has_bars(panel):
        figure.update_xaxes(dtick=1)
    return _plain(figure.to_plotly_json())


def _has_bars(panel: Panel) -> bool:
    return any(series.kind == "bars" for series in panel.series)


def _trace(go: Any, series: Series, colour: str, *, several: bool) -> Any:
    common = {
        "name": escape(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "hovertemplate": "%{x:.3~g}: %{y:.4~g}",
    }
    if series.kind == "bars":
        return go.Bar(**common, marker={"color": colour, "opacity": 0.55})
    few = len(series.x) < 20
    spread = None
    if series.half_widths and any(width is not None for width in series.half_widths):
        spread = {"type": "data", "array": [width or 0.0 for width in series.half_widths], "thickness": 1}
    return go.Scatter(
        **common,
        mode="lines+markers" if few else "lines",
        line={"color": colour, "width": 2, "shape": "linear"},
        error_y=spread,
        fill="tozeroy" if not few and not several else None,
    )


def _plain(value: Any) -> Any:
    """Plotly's containers as lists and dictionaries."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def plotly_script() -> str:
    """The JavaScript that draws, to go into the page."""
    _plotly()
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _plotly() -> Any:
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise MissingPackage('an HTML report needs plotly and jinja2: pip install "apgcn[report]"') from error
    return plotly.graph_objects
