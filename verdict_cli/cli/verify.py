"""`verdict verify RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.options import PublicKey
from verdict_cli.errors import UsageError


def verify(
    run: Annotated[Path, typer.Argument(help="The directory of a finished run.")], key: PublicKey = None
) -> None:
    """Check the journal, tables and report of a run against the digests in its run.json, and with --key its signature.

    Exits with 0 if every file is as the run wrote it, and with 2 if not. Without --key it detects damage, but no
    deliberate change: the digests are in the same directory.

    Example: verdict verify runs/demo/judge
    """
    checked, others = check_files(run, key)
    for name in others:
        print_message(f"{name}: not a file of the run")
    print_message(f"{run}: {checked} files are as the run {'was signed' if key else 'wrote them'}")


def check_files(run: Path, key: Path | None, *, inputs_only: bool = False) -> tuple[int, list[str]]:
    """The number of files that are as the run wrote them, and the names of files that it did not write.

    Exits with 2 if a file has changed. ``inputs_only``: with a key, only those from which the report is written count.
    """
    from verdict_cli.run.digests import changed_files
    from verdict_cli.run.part_files import PART_TABLES
    from verdict_cli.run.run_directory import SIGNATURE, RunDirectory
    from verdict_cli.run.signature import check_signature
    from verdict_cli.run.validate_run import check_links
    from verdict_cli.storage.tables.human_labels import FILE

    directory = RunDirectory(run)
    check_links(run)
    facts = directory.facts()
    if facts is None:
        raise UsageError(f"{run} is not the directory of a run", hint="give the --out of a `verdict run`")
    changed = [] if inputs_only else changed_files(directory, facts)
    if key is not None:
        named = {message.partition(":")[0] for message in changed}
        signed = check_signature(directory, facts, key, inputs_only=inputs_only)
        changed += [message for message in signed if message.partition(":")[0] not in named]
    for message in changed:
        print_error(message)
    if changed:
        raise typer.Exit(2)
    known = {*(name.partition("/")[0] for name in (*facts.digests, *PART_TABLES)), SIGNATURE, FILE, "published"}
    return len(facts.digests), sorted(path.name for path in run.iterdir() if path.name not in known)
