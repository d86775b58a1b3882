"""The process around the viewer: its socket, and an end on Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from verdict_cli.http.guard.connection import connections
from verdict_cli.http.guard.listening import listening_address
from verdict_cli.http.guard.middleware import AccessPolicy, GuardMiddleware
from verdict_cli.http.viewer.pages import BODY_BYTES, BODY_S, viewer_application
from verdict_cli.http.viewer.run_registry import RunRegistry
from verdict_cli.http.viewer.runs import Runs

_MOST = 200
"""Connections at once."""


def serve_viewer(runs: Runs, door: AccessPolicy, at: socket.socket, say: Callable[[str], None]) -> None:
    """Answers until SIGTERM or SIGINT."""
    guarded = GuardMiddleware(
        viewer_application(RunRegistry(runs)), door, body_bytes=BODY_BYTES, body_s=BODY_S, pages=True
    )
    server = uvicorn.Server(
        uvicorn.Config(
            guarded,
            http=connections(_MOST),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=15,
            timeout_graceful_shutdown=2,
        )
    )
    at.listen(128)
    token = "" if door.token is None else f"/?token={door.token}"
    say(f"{runs.root.name} is shown at {listening_address(at)}{token} (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        server.run([at])
