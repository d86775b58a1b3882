"""The process around the viewer: its socket, and an end on Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from verdict_cli.door import Door, Guarded, address, connections
from verdict_cli.web.app import BODY_BYTES, BODY_S, application
from verdict_cli.web.library import Library
from verdict_cli.web.runs import Runs

_MOST = 200
"""Connections at once."""


def serve(runs: Runs, door: Door, at: socket.socket, say: Callable[[str], None]) -> None:
    """Answers until SIGTERM or SIGINT."""
    guarded = Guarded(application(Library(runs)), door, body_bytes=BODY_BYTES, body_s=BODY_S, pages=True)
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
    say(f"{runs.root.name} is shown at {address(at)}{token} (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        server.run([at])
