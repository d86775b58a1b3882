"""The HTTP clients of a process, at its end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, time
from pyreqwest.http import Url
from verdict_cli.llm.http_client import HttpClients

now, pauses = [100.0], []
time.monotonic, time.sleep = lambda: now[0], pauses.append
clients = HttpClients()
clients.get(Url("http://127.0.0.1:1/v1"))
HttpClients.pause()
asyncio.run(clients.close())
HttpClients.pause()
now[0] += 1
HttpClients.pause()
print([seconds > 0 for seconds in pauses])
"""


def test_the_end_waits_for_the_clients_thread_unless_they_were_closed_before():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[True, True, False]\n"
