"""The delay before a retry."""

from __future__ import annotations

from random import Random

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
MAX_RETRY_AFTER_S = 600.0


def delay_s(failures: int, retry_after_s: float | None, random: Random) -> float:
    """Seconds to wait after so many failures (from 1).

    The delay that the provider asked for, up to ten minutes; else a random delay below a bound that starts at half a second
    and doubles with each failure up to 30 seconds ("full jitter", so that calls that failed together do not retry together).
    """
    if retry_after_s is not None:
        return min(max(0.0, retry_after_s), MAX_RETRY_AFTER_S)
    doublings = min(max(0, failures - 1), 16)
    return random.random() * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0**doublings)
