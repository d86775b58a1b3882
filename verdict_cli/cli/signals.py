"""Ctrl-C, SIGTERM and SIGHUP (a closed terminal): the first stops a run gracefully, the second immediately."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from verdict_cli.cli.console import print_message
from verdict_cli.run.job import Stop

_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    # `nohup` ignores SIGHUP, and it stays ignored; Windows has none.
    if hasattr(signal, name) and not (name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
]


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Pass signals to `stop` while calls are in flight. Before and after, they end the program."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.bound:
            raise KeyboardInterrupt
        if stop.requested:
            os._exit(130)
        stop.request()
        with suppress(OSError):  # the terminal may be closed
            print_message("Stopping: waiting up to 5 s for calls in flight. Press Ctrl-C again to quit now.")

    previous = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
