"""The server of `verdict view`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from verdict_cli.features.guard.connection import connection_class
from verdict_cli.features.guard.listening import listening_address
from verdict_cli.features.guard.middleware import AccessPolicy, GuardMiddleware
from verdict_cli.features.viewer.pages import BODY_BYTES, BODY_S, viewer_application
from verdict_cli.features.viewer.run_registry import RunRegistry
from verdict_cli.features.viewer.runs import Runs

_MOST_CONNECTIONS = 200
"""The most open connections."""


def serve_viewer(
    runs: Runs, policy: AccessPolicy, listener: socket.socket, log: Callable[[str], None], annotator: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT. Labels that are given are those of the `annotator`."""
    guarded = GuardMiddleware(
        viewer_application(RunRegistry(runs, annotator)), policy, body_bytes=BODY_BYTES, body_s=BODY_S, pages=True
    )
    server = uvicorn.Server(
        uvicorn.Config(
            guarded,
            http=connection_class(_MOST_CONNECTIONS),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=15,
            timeout_graceful_shutdown=2,
        )
    )
    listener.listen(128)
    token = "" if policy.token is None else f"/?token={policy.token}"
    log(f"{runs.root.name}: serving at {listening_address(listener)}{token} (press Ctrl-C to stop)")
    with suppress(KeyboardInterrupt):
        server.run([listener])
