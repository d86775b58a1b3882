"""What takes longer than an answer may: worked out once in the background, kept while it is among the latest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any


class BackgroundTasks:
    """At most `at_once` jobs work, `kept` results are kept."""

    def __init__(self, at_once: int, kept: int) -> None:
        self._pool = ThreadPoolExecutor(at_once, "view")
        self._kept = kept
        self._futures: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, work: Callable[[], Any], wait_s: float = 0.0) -> tuple[bool, Any]:
        """Whether it is done, and its result; raises what the work raised. It is waited for `wait_s` at most."""
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                future = self._futures[key] = self._pool.submit(work)
            self._futures.move_to_end(key)
            for old in list(self._futures):
                if len(self._futures) <= self._kept:
                    break
                if self._futures[old].done():
                    del self._futures[old]
        try:
            return True, future.result(wait_s)
        except TimeoutError:
            if future.done():
                raise
            return False, None

    def close(self) -> None:
        """Waits for nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
