"""How long to wait before a call is made again."""

from __future__ import annotations

from random import Random

FIRST_S = 0.5
LONGEST_BACKOFF_S = 30.0
LONGEST_ASKED_S = 600.0


def delay_s(failures: int, retry_after_s: float | None, random: Random) -> float:
    """Seconds to wait after so many failures (from 1).

    What the provider asked for, up to ten minutes; else anything between 0 and a bound that starts at half a second
    and doubles with each failure up to 30 seconds ("full jitter": callers that failed together do not return together).
    """
    if retry_after_s is not None:
        return min(max(0.0, retry_after_s), LONGEST_ASKED_S)
    doublings = min(max(0, failures - 1), 16)
    return random.random() * min(LONGEST_BACKOFF_S, FIRST_S * 2.0**doublings)
