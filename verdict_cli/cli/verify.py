"""`verdict verify RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.errors import UsageError
from verdict_cli.plural import plural


def verify(run: Annotated[Path, typer.Argument(help="The directory of a finished run.")]) -> None:
    """Check the tables and report of a run against the digests in its run.json.

    Exits with 0 if every file is as the run wrote it, and with 2 if not. It detects damage, but no deliberate change: the
    digests are in the same directory. Sign run.json with another program, such as minisign or cosign, to prove that too.

    Example: verdict verify runs/demo/judge
    """
    from verdict_cli.run.digests import changed_files
    from verdict_cli.run.run_directory import RunDirectory
    from verdict_cli.run.tables import TABLES
    from verdict_cli.storage.database.database import RUN_DB
    from verdict_cli.storage.tables.human_labels import FILE

    directory = RunDirectory(run)
    facts = directory.facts()
    if facts is None:
        raise UsageError(
            f"{run} is not the directory of a run", hint="give the --out of a `verdict run`"
        )
    changed = changed_files(directory, facts)
    for message in changed:
        print_error(message)
    if changed:
        raise typer.Exit(2)
    file_names = {
        *(name.partition("/")[0] for name in (*facts.digests, *TABLES)),
        FILE,
        RUN_DB,
        "published",
    }
    for name in sorted(path.name for path in run.iterdir() if path.name not in file_names):
        print_message(f"{name}: not a file of the run")
    print_message(f"{run}: {plural(len(facts.digests), 'file is|files are')} as the run wrote them")
