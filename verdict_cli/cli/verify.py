"""`verdict verify RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import UsageError


def verify(run: Annotated[Path, typer.Argument(help="The directory of a finished run.")]) -> None:
    """Check the journal, tables and report of a run against the digests in its run.json.

    Exits with 0 if every file is as the run wrote it, and with 2 if not. The digests detect damage; they are not a signature.

    Example: verdict verify runs/demo
    """
    from verdict_cli.run.digests import changed_files
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.validate_run import check_links

    directory = RunDirectory(run)
    check_links(run)
    facts = directory.facts()
    if facts is None:
        raise UsageError(f"{run} is not the directory of a run", hint="give the --out of a `verdict run`")
    changed = changed_files(directory, facts)
    for message in changed:
        print_error(message)
    if changed:
        raise typer.Exit(2)
    print_message(f"{run}: {len(facts.digests)} files are as the run wrote them")
