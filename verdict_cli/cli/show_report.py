"""Print a report, and what `verdict run`, `report` and `gate` have in common at their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from verdict_cli.cli.console import print_error, print_json, print_message, without_commands

if TYPE_CHECKING:
    from rich.console import RenderableType

    from verdict_cli.report.document import ReportDocument
    from verdict_cli.report.report import Report
    from verdict_cli.run.load_run import RunResult
    from verdict_cli.stats.gates import Inconclusive

MOST_SUMMARY_BYTES = 1 << 20
"""GitHub's limit per step. A larger summary is not shown at all."""


def append_step_summary(markdown: str, environ: Mapping[str, str] = os.environ) -> None:
    """Append the text to the file named by ``GITHUB_STEP_SUMMARY``, if all of it fits."""
    name = environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    path, content = Path(name), f"{markdown}\n".encode()
    try:
        size = path.stat().st_size if path.exists() else 0
        if size + len(content) > MOST_SUMMARY_BYTES:
            print_error(
                "warning: the report does not fit into the summary of this step (GitHub allows 1 MiB)"
            )
            return
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        print_error(
            f"warning: the summary of this step cannot be written: {error.strerror or error}"
        )


def finish_with_report(
    run: RunResult,
    formats: Sequence[str] = (),
    *,
    inconclusive: Inconclusive = "fail",
    sequential: bool = False,
    quiet: bool = False,
) -> Report:
    """Write the run's report, also to the summary of a GitHub Actions step, where one runs."""
    from verdict_cli.cli.progress import show_reading
    from verdict_cli.report.write_report import write_report

    with show_reading(quiet=quiet):
        report = write_report(
            run, formats, inconclusive=inconclusive, sequential=sequential, warn=print_error
        )
    append_step_summary((run.directory.path / "report.md").read_text(encoding="utf-8"))
    return report


def show_report(report: Report, *, as_json: bool) -> None:
    """Print the report on standard output: for people, or as one JSON document."""
    if as_json:
        from verdict_cli.report.report import summary_json

        print_json(summary_json(report))
        return
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.run_document import run_document

    to_terminal(render_terminal(run_document(report)))


def show_study(
    document: ReportDocument, folder: Path, name: str, *, as_json: bool = False, message: str = ""
) -> None:
    """Write `NAME.json`, `NAME.md` and `NAME.html` into the folder of a study, and print it: as one JSON document, or for
    people, with the message behind it."""
    from verdict_cli.report.renderers.html import render_html
    from verdict_cli.report.renderers.json import render_json
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.run.run_directory import RunDirectory

    directory = RunDirectory(folder)
    directory.write(f"{name}.json", render_json(document))
    directory.write(f"{name}.md", render_markdown(document))
    directory.write(f"{name}.html", render_html(document))
    print_document(document, as_json=as_json)
    if message and not as_json:
        print_message(message)


def print_document(document: ReportDocument, *, as_json: bool) -> None:
    """Print a document: as one JSON document, or for people."""
    from verdict_cli.report.renderers.terminal import render_terminal

    if as_json:
        print_json(document.as_json())
    else:
        to_terminal(render_terminal(document))


def to_terminal(renderable: RenderableType) -> None:
    """Print on standard output: as wide as the terminal, and without trailing spaces where there is none."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False, width=_width() if "COLUMNS" in os.environ else None).print(
            renderable
        )
        return
    rendered = StringIO()
    Console(file=rendered, highlight=False, width=_width()).print(renderable)
    lines = [line.rstrip() for line in without_commands(rendered.getvalue()).splitlines()]
    sys.stdout.writelines([f"{line}\n" for line in lines])


def _width() -> int:
    """Columns where standard output is not a terminal: those of COLUMNS, unless nothing could be read in them."""
    text = os.environ.get("COLUMNS", "")
    return (
        int(text)
        if text.isascii() and text.isdigit() and _FEWEST_COLUMNS <= int(text) <= _MOST_COLUMNS
        else 80
    )


_FEWEST_COLUMNS, _MOST_COLUMNS = 20, 1000


def exit_code(report: Report) -> int:
    """1 when a gate failed, 3 when a row did, else 0."""
    if not report.passed:
        return 1
    return 3 if report.facts.failed else 0
