"""`apgcn report`: what a store says, as a page or as text."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.executor_options import names
from apgcn.errors import InvalidInput, UnknownName


def report(
    store: Annotated[Path, typer.Argument(help="A folder that `apgcn reproduce --store` filled.")],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page into this file.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the tables as LaTeX.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all values as CSV.")] = False,
    only: Annotated[str | None, typer.Option(help="Names with commas between, such as table2,figure3.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Show every table and figure that a store has records for, beside the paper's numbers."""
    from apgcn.benchmark.store import Store
    from apgcn.report.csv import spreadsheet
    from apgcn.report.html import write_page
    from apgcn.report.latex import latex as as_latex
    from apgcn.report.markdown import markdown as as_markdown
    from apgcn.report.sections import contents

    if sum((markdown, latex, csv, as_json)) > 1:
        raise InvalidInput("only one of --markdown, --latex, --csv and --json can be printed at a time.")
    place = Store.existing(store)
    artifacts = contents(place)
    if only is not None:
        known = [artifact.name for artifact in artifacts]
        wanted = names(only) or []
        if not wanted:
            raise InvalidInput(f"--only must name at least one of {', '.join(known)}.")
        for name in wanted:
            if name not in known:
                raise UnknownName("table or figure", name, known)
        artifacts = [artifact for artifact in artifacts if artifact.name in wanted]
    filled = [artifact for artifact in artifacts if artifact.recorded]
    if html:
        write_page(html, place, artifacts, title=f"apgcn: {store.resolve().name}")
    if as_json:
        print(json.dumps({"experiments": {one.name: [dict(row) for row in one.table.rows] for one in filled}}))
    elif markdown:
        print(as_markdown(artifact.without_what_was_not_run() for artifact in filled))
    elif latex:
        print(as_latex(artifact.without_what_was_not_run() for artifact in filled))
    elif csv:
        print(spreadsheet(filled), end="")
    elif html:
        print(f"written: {html}")
    else:
        for artifact in filled:
            render.artifact(artifact)
        for artifact in artifacts:
            if artifact not in filled:
                print(
                    f"\n{artifact.heading}\nnothing recorded: apgcn reproduce {artifact.name} --store {quote(str(store))}"
                )
