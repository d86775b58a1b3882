"""`verdict cache`: the replies that runs share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import document, print_error, print_message, print_report
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import OutputError

if TYPE_CHECKING:
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.plan.node import Plan

app = typer.Typer(help="The replies that runs share.", rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def cache_commands(context: typer.Context) -> None:
    """The replies that runs share: where they are, how many, and what makes two requests equal."""
    if context.invoked_subcommand is None:
        cache_info(as_json=False)


@app.command("info")
def cache_info(as_json: AsJson = False) -> None:
    """Show how many replies of which model are kept, and the file's size.

    Example: verdict cache info --json
    """
    from verdict_cli.llm.middleware.cache_store import CACHE_FILE_NAME, CacheContents, CacheStore, cache_directory

    file = cache_directory() / CACHE_FILE_NAME
    kept = CacheContents({}, 0)
    if file.exists():
        store = CacheStore.open(file)
        try:
            kept = store.contents()
        finally:
            store.close()
    if as_json:
        document({"path": str(file), "replies": kept.replies, "bytes": kept.size, "models": dict(kept.models)})
        return
    print_report(f"{file}: {kept.replies:,} replies, {kept.size / 2**20:.1f} MiB\n")
    for model, count in kept.models.items():
        print_report(f"  {model}  {count:,}\n")


@app.command("clear")
def clear() -> None:
    """Remove every reply.

    Example: verdict cache clear
    """
    from verdict_cli.llm.middleware.cache_store import CACHE_FILE_NAME, cache_directory, store_files

    try:
        for file in store_files(cache_directory() / CACHE_FILE_NAME):
            file.unlink(missing_ok=True)
    except OSError as fault:
        raise OutputError(
            f"{fault.filename} cannot be removed: {fault.strerror}", hint="check its permissions"
        ) from None
    print_message("the cache is empty")


@app.command("path")
def path() -> None:
    """Print the file's path; VERDICT_CACHE_DIR names another directory.

    Example: verdict cache path
    """
    from verdict_cli.llm.middleware.cache_store import CACHE_FILE_NAME, cache_directory

    sys.stdout.write(f"{cache_directory() / CACHE_FILE_NAME}\n")


@app.command("explain")
def explain() -> None:
    """Say what makes two requests equal, and what is never kept.

    Example: verdict cache explain
    """
    from verdict_cli.llm.middleware.cache import KEY_PARTS

    print_report("A reply is used again for a request that is equal in all of these:\n")
    width = max(len(name) for name, _ in KEY_PARTS)
    for name, what in KEY_PARTS:
        print_report(f"  {name:{width}}  {what}\n")
    print_report(
        "Rows are not among them: two rows with the same prompt share a reply, and equal calls in flight are one.\n"
        "Repeated units are kept apart, so that `repeat: 3` draws three samples.\n"
        "Never kept: failures, replies that were cut off or could not be read, and anything of baseline/, replay/\n"
        "and models with `cache: false`. A reply from the cache costs 0 and is marked `cached` in calls.parquet.\n"
        "`verdict run --no-cache` neither reads nor keeps any.\n"
    )


def opened_store(plan: Plan, *, wanted: bool) -> CacheStore | None:
    """The store for a run; None where it is not wanted, or no model of the plan may use it.

    A cache that cannot be opened costs money, not results: it is complained of, and the run goes on without.
    """
    from verdict_cli.run.preflight import store

    if not wanted:
        return None
    try:
        return store(plan)
    except OutputError as error:
        print_error(f"warning: {error}")
        return None
