"""The Pareto frontier: what no other choice beats in one respect without losing in the other."""

from __future__ import annotations

from collections.abc import Sequence


def frontier(prices: Sequence[float | None], gains: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether each point is on the frontier of low prices and high gains; points without either are not.

    A point is beaten by one that is as cheap and as good, and better in one of the two.
    """
    known = [
        (price, gain) if price is not None and gain is not None else None
        for price, gain in zip(prices, gains, strict=True)
    ]
    return tuple(
        one is not None
        and not any(
            other is not None
            and other[0] <= one[0]
            and other[1] >= one[1]
            and (other[0] < one[0] or other[1] > one[1])
            for other in known
        )
        for one in known
    )
