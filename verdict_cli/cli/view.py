"""`verdict view [RUN|DIR]`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError


def view(
    where: Annotated[Path, typer.Argument(metavar="[RUN|DIR]", help="A run, or a directory with runs in it.")] = Path(
        "runs"
    ),
    host: Annotated[
        str, typer.Option("--host", help="The address; another than this machine's own asks for a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8008,
    token_env: Annotated[
        str,
        typer.Option(
            "--token-env",
            metavar="NAME",
            help="The environment variable that holds the token; without it, one is drawn where it is needed.",
        ),
    ] = "VERDICT_TOKEN",
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="A further Host that is answered.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
) -> None:
    """Show runs in a browser: rows searched, filtered, sorted and labelled, runs compared, running ones followed.

    Needs the extra `view`. Nothing is loaded from any network.

    Example: verdict view runs
    """
    try:
        from verdict_cli.http.guard.listening import bind_socket, listening_address, needs_token
        from verdict_cli.http.guard.middleware import AccessPolicy
        from verdict_cli.http.viewer.runs import Runs
        from verdict_cli.http.viewer.viewer_server import serve_viewer
    except ImportError as fault:
        raise UsageError(
            f"verdict view needs {fault.name}, which is not installed",
            hint="in a checkout of verdict: pip install '.[view]'",
        ) from None
    if not where.is_dir():
        raise UsageError(f"there is no directory {where}", hint="give a run, or a directory with runs in it")
    token = os.environ.get(token_env) or None
    if token is None and needs_token(host):
        token = secrets.token_urlsafe(24)
    with bind_socket(host, port) as at:
        if open_browser:
            import webbrowser

            webbrowser.open(f"{listening_address(at)}{'' if token is None else f'/?token={token}'}")
        serve_viewer(Runs(where), AccessPolicy(token, AccessPolicy.names(host, allow_host or ())), at, print_message)
