"""The command line: its commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import sys
import traceback
from tempfile import NamedTemporaryFile

import typer

from verdict_cli import __version__
from verdict_cli.cli import (
    cache,
    compare,
    datasets,
    estimate,
    extract,
    gate,
    graph,
    report,
    run,
    schema,
    units,
    validate,
)
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
app.command("estimate")(estimate.estimate)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("gate")(gate.gate)
app.command("extract")(extract.extract)
app.command("schema")(schema.schema)
app.command("units")(units.units)
app.add_typer(datasets.app, name="datasets")
app.add_typer(cache.app, name="cache")


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
        with NamedTemporaryFile(
            "w", prefix="verdict-error-", suffix=".log", encoding="utf-8", delete=False
        ) as log:
            log.write(traceback.format_exc())
        complain(
            f"this is a mistake in verdict itself; what happened is written to {log.name}\n"
            "    please report it with that file"
        )
        sys.exit(70)


def _utf8() -> None:
    """Reads and writes UTF-8 whatever the machine's own encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
