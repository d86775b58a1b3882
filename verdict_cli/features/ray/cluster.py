"""The connection to a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from verdict_cli.errors import UsageError

CONNECT_S = 18.0
"""How long Ray may take to start or to answer; its own limits are some minutes."""


@contextmanager
def connected() -> Iterator[Any]:
    """The module `ray`, connected to the cluster at RAY_ADDRESS, or to one on this machine, which is started if none runs.

    UsageError where Ray is not installed, does not start, or does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"--engine ray needs Ray, which is not installed: {error}",
            hint="pip install 'ray>=2.40,<3'",
        ) from None
    if ray.is_initialized():  # the program that called verdict is connected
        yield ray
        return
    ended = Event()
    _connect(ray, ended)
    try:
        yield ray
    finally:
        ray.shutdown()
        ended.set()


def _connect(ray: Any, ended: Event) -> None:
    """Connect in a thread, because nothing stops an attempt that hangs."""
    outcome: Future[None] = Future()

    def attempt() -> None:
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except Exception as error:
            outcome.set_exception(error)
            return
        outcome.set_result(None)
        ended.wait()  # the processes of a cluster that is started here end with the thread that started them

    address = os.environ.get("RAY_ADDRESS")
    cluster = f"the Ray at RAY_ADDRESS={address}" if address else "Ray on this machine"
    Thread(target=attempt, daemon=True).start()
    try:
        with _without_stderr():
            outcome.result(CONNECT_S)
    except TimeoutError:
        raise UsageError(
            f"{cluster} does not answer within {CONNECT_S:.0f} s",
            hint="`ray status` shows whether it runs, `ray start --head` starts one; or leave --engine out",
        ) from None
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(
            f"{cluster} cannot be used: {lines[0]}",
            hint="set RAY_ADDRESS to HOST:PORT of its head, or unset it to start Ray here",
        ) from None


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what libraries write to standard error: Ray tells there how often it has tried."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
