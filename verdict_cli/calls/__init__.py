"""Rings around a provider, one concern each: a function from ``Ask`` to ``Ask``."""

from verdict_cli.calls.backoff import delay_s
from verdict_cli.calls.cache import cached
from verdict_cli.calls.capped import capped
from verdict_cli.calls.journalled import UnrecordedError, journalled, recorded
from verdict_cli.calls.limit import Flow, Gates, estimate, limited
from verdict_cli.calls.logprobs import proven
from verdict_cli.calls.spans import Spans
from verdict_cli.calls.store import Store

__all__ = [
    "Flow",
    "Gates",
    "Spans",
    "Store",
    "UnrecordedError",
    "cached",
    "capped",
    "delay_s",
    "estimate",
    "journalled",
    "limited",
    "proven",
    "recorded",
]
