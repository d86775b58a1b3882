"""Rings around a provider, one concern each: a function from ``Ask`` to ``Ask``."""

from verdict_cli.calls.backoff import delay_s
from verdict_cli.calls.journalled import journalled
from verdict_cli.calls.limit import Gates, limited

__all__ = ["Gates", "delay_s", "journalled", "limited"]
