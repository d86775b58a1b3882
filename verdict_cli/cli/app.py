"""The command line: its commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from tempfile import gettempdir

import typer

from verdict_cli import __version__
from verdict_cli.cli import datasets, graph, report, run, schema, units, validate
from verdict_cli.cli.streams import complain
from verdict_cli.errors import VerdictError

app = typer.Typer(
    name="verdict",
    help="Judge LLM outputs with compound judges: small graphs of LLM calls described in a YAML file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("validate")(validate.validate)
app.command("graph")(graph.graph)
app.command("report")(report.report)
app.command("schema")(schema.schema)
app.command("units")(units.units)
app.add_typer(datasets.app, name="datasets")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    """Answers --version."""
    if version:
        sys.stdout.write(f"verdict {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.Exit(2)


def main() -> None:
    """Runs the command line; every error leaves by here."""
    _utf8()
    try:
        app()
    except VerdictError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception:
        path = Path(gettempdir()) / "verdict-error.log"
        path.write_text(traceback.format_exc(), encoding="utf-8")
        complain(f"this is a mistake in verdict itself; what happened is written to {path}\n    please report it with that file")
        sys.exit(1)


def _utf8() -> None:
    """Reads and writes UTF-8 whatever the machine's own encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
