"""`verdict cache`: the cache of replies shared by all runs."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.console import print_error, print_json, print_message, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import OutputError
from verdict_cli.llm.middleware.cache_store import (
    CACHE_FILE_NAME,
    CacheContents,
    CacheStore,
    cache_directory,
)
from verdict_cli.llm.middleware.replies import KEY_PARTS
from verdict_cli.plural import plural
from verdict_cli.run.preflight import open_cache
from verdict_cli.storage.database.schema import database_files

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan

app = typer.Typer(
    help="Show or clear the cache of model replies.", rich_markup_mode=None, add_completion=False
)


@app.callback(invoke_without_command=True)
def cache_commands(context: typer.Context) -> None:
    """Show or clear the cache of model replies, which all runs share."""
    if context.invoked_subcommand is None:
        cache_info(as_json=False)


@app.command("info", cls=HelpCommand)
def cache_info(as_json: AsJson = False) -> None:
    """Show the number of cached replies per model, and the size of the file.

    Example: verdict cache info --json
    """
    file = cache_directory() / CACHE_FILE_NAME
    contents = CacheContents({}, 0)
    if file.exists():
        with closing(CacheStore.open(file)) as store:
            contents = store.contents()
    if as_json:
        print_json(
            {
                "path": str(file),
                "replies": contents.replies,
                "bytes": contents.size,
                "models": dict(contents.models),
            }
        )
        return
    print_report(
        f"{file}: {plural(contents.replies, 'reply|replies')}, {contents.size / 2**20:.1f} MiB\n"
    )
    for model, count in contents.models.items():
        print_report(f"  {model}  {count:,}\n")


@app.command("clear", cls=HelpCommand)
def clear() -> None:
    """Delete all cached replies.

    Example: verdict cache clear
    """
    try:
        for file in database_files(cache_directory() / CACHE_FILE_NAME):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot delete {error.filename}: {error.strerror}", hint="check its permissions"
        ) from None
    print_message("the cache is empty")


@app.command("path", cls=HelpCommand)
def path() -> None:
    """Print the path of the cache file. VERDICT_CACHE_DIR sets its directory.

    Example: verdict cache path
    """
    sys.stdout.write(f"{cache_directory() / CACHE_FILE_NAME}\n")


@app.command("explain", cls=HelpCommand)
def explain() -> None:
    """Explain which requests share a reply, and which replies are never cached.

    Example: verdict cache explain
    """
    print_report("A cached reply is used for a request that has the same:\n")
    width = max(len(name) for name, _ in KEY_PARTS)
    for name, description in KEY_PARTS:
        print_report(f"  {name:{width}}  {description}\n")
    print_report(
        "The row is not part of the key: two rows with the same prompt share a reply, and equal calls in flight become one.\n"
        "The instances of a repeated unit have different keys, so `repeat: 3` draws three samples.\n"
        "Never cached: failures, truncated or unreadable replies, baseline/ and replay/ models, and models with\n"
        "`cache: false`. A cache hit costs 0 and is marked `cached` in calls.parquet.\n"
        "`verdict run --no-cache` neither reads nor writes the cache.\n"
    )


def opened_store(plan: Plan) -> CacheStore | None:
    """Open the cache for a run; None if no model of the plan may use it.

    If it cannot be opened, a warning is printed and the run continues without it.
    """
    try:
        return open_cache(plan)
    except OutputError as error:
        print_error(f"warning: {error}")
        return None
