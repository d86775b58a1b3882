"""`verdict view [RUN|DIR]`."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError


def view(
    where: Annotated[
        Path, typer.Argument(metavar="[RUN|DIR]", help="A run, or a directory of runs.")
    ] = Path("runs"),
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen on. Other than this machine's own, it needs a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8008,
    token_env: Annotated[
        str,
        typer.Option(
            "--token-env",
            metavar="NAME",
            help="The environment variable that holds the token. [default if needed: a random one]",
        ),
    ] = "VERDICT_TOKEN",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Also accept requests with this Host header."
        ),
    ] = None,
    annotator: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Label under this name. A run with a queue opens at its next row.",
        ),
    ] = "",
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Show runs in a browser: search, filter, sort and label rows, compare runs, follow running ones.

    The pages load nothing from the network.

    Examples:

      verdict view runs

      verdict view runs/demo/judge --as ann
    """
    from verdict_cli.features.guard.middleware import (
        AccessPolicy,
        bind_socket,
        listening_address,
        needs_token,
    )
    from verdict_cli.features.viewer.pages import serve_viewer
    from verdict_cli.features.viewer.run_view import Runs

    if not re.fullmatch(r"[\w.@ -]{0,64}", annotator) or annotator != annotator.strip():
        raise UsageError(
            f"--as {annotator!r} is not a name",
            hint="at most 64 letters, digits, spaces, and any of . _ @ -",
        )
    if not where.is_dir():
        raise UsageError(
            f"there is no directory {where}", hint="give a run, or a directory of runs"
        )
    token = os.environ.get(token_env) or None
    if token is None and needs_token(host):
        token = secrets.token_urlsafe(24)
    with bind_socket(host, port) as listener:
        if open_browser:
            import webbrowser

            webbrowser.open(
                f"{listening_address(listener)}{'' if token is None else f'/?token={token}'}"
            )
        serve_viewer(
            Runs(where),
            AccessPolicy(token, AccessPolicy.allowed_hosts(host, allow_host or ())),
            listener,
            print_message,
            annotator,
        )
