"""`apgcn report`: the tables and figures of a store, as a page or as text."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.options import OUTPUT, AsJSON, split_names
from apgcn.errors import InvalidInput, UnknownName


def report(
    store: Annotated[Path, typer.Argument(help="The folder of `apgcn reproduce --store`.")],
    only: Annotated[
        str | None, typer.Option(help="Names of tables and figures, separated by commas, such as table2,figure3.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page into this file.", rich_help_panel=OUTPUT)
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.", rich_help_panel=OUTPUT)
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the tables as LaTeX.", rich_help_panel=OUTPUT)] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all values as CSV.", rich_help_panel=OUTPUT)] = False,
    as_json: AsJSON = False,
) -> None:
    """Show every table and figure that a store has records for, beside the paper's numbers."""
    from apgcn.benchmark.store import Store
    from apgcn.report.csv import to_csv
    from apgcn.report.html import write_report
    from apgcn.report.latex import to_latex
    from apgcn.report.markdown import to_markdown
    from apgcn.report.sections import report_artifacts

    if sum((markdown, latex, csv, as_json)) > 1:
        raise InvalidInput("only one of --markdown, --latex, --csv and --json can be printed at a time.")
    record_store = Store.open(store)
    artifacts = report_artifacts(record_store)
    if only is not None:
        known = [artifact.name for artifact in artifacts]
        selected = split_names(only) or []
        if not selected:
            raise InvalidInput(f"--only must name at least one of {', '.join(known)}.")
        for name in selected:
            if name not in known:
                raise UnknownName("table or figure", name, known)
        artifacts = [artifact for artifact in artifacts if artifact.name in selected]
    filled = [artifact for artifact in artifacts if artifact.has_runs]
    if html:
        write_report(html, record_store, artifacts, title=f"apgcn: {store.resolve().name}")
    if as_json:
        print(
            json.dumps(
                {"artifacts": {artifact.name: [dict(row) for row in artifact.table.rows] for artifact in filled}}
            )
        )
    elif markdown:
        print(to_markdown(artifact.drop_rows_without_runs() for artifact in filled))
    elif latex:
        print(to_latex(artifact.drop_rows_without_runs() for artifact in filled))
    elif csv:
        print(to_csv(filled), end="")
    elif html:
        print(f"written: {html}")
    else:
        for artifact in filled:
            render.artifact(artifact)
        for artifact in artifacts:
            if artifact not in filled:
                command = f"apgcn reproduce {artifact.name} --store {quote(str(store))}"
                print(f"\n{artifact.heading}\nnothing recorded: {command}")
