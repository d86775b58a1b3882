"""Ctrl-C and SIGTERM: the first stops a run in order, the second at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from verdict_cli.cli.console import print_message
from verdict_cli.run.job import Stop


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Leads the signals to `stop` while calls are made; before and after that they end the program."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.bound:
            raise KeyboardInterrupt
        if stop.requested:
            os._exit(130)
        stop.request()
        print_message("stopping: calls in flight have 5 s; once more stops at once")

    kept = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)
