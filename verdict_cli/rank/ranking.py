"""The ranking as a value: places, intervals, who cannot be told from the first, and how consistent the judge was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isclose
from typing import Any

from verdict_cli.rank.candidates import Candidate

_SAME = 1e-6
"""Values closer than this share a rank: a fit ends a little before its optimum."""


@dataclass(frozen=True)
class Standing:
    """One candidate. ``rank`` from 1, equal for equal values; None with ``value`` None: nothing is known of it.

    ``value`` is the mean score, or the strength in log-odds against the average of the field; ``low`` and ``high`` its 95% interval.
    """

    rank: int | None
    candidate: int
    label: str
    value: float | None
    low: float | None
    high: float | None
    tied_with_first: bool
    wins: float | None = None
    contests: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Ranking:
    """All candidates, best first. ``consistency`` is empty where nothing was compared."""

    kind: str
    standings: tuple[Standing, ...]
    judgements: int
    failed: int
    consistency: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """As `verdict rank --json` prints it."""
        first = self.standings[0]
        return {
            "kind": self.kind,
            "best": None if first.rank is None else {"candidate": first.candidate, "label": first.label},
            "ranking": [asdict(one) for one in self.standings],
            "judgements": self.judgements,
            "failed": self.failed,
            "consistency": self.consistency,
        }


@dataclass(frozen=True)
class Found:
    """What is known of one candidate before the places are given."""

    value: float | None
    low: float | None = None
    high: float | None = None
    wins: float | None = None
    contests: int = 0
    failed: int = 0


def standings(
    candidates: Sequence[Candidate], found: Sequence[Found], apart: Callable[[int, int], bool]
) -> tuple[Standing, ...]:
    """The candidates, best first; equal values share a rank. ``apart`` says whether two can be told from one another."""
    order = sorted(
        range(len(found)),
        key=lambda one: (found[one].value is None, -(found[one].value or 0.0), one),
    )
    first = order[0]
    made: list[Standing] = []
    for place, one in enumerate(order):
        known = found[one]
        rank: int | None = None
        if known.value is not None:
            before = made[-1] if made else None
            same = (
                before is not None
                and before.value is not None
                and isclose(before.value, known.value, abs_tol=_SAME)
            )
            rank = before.rank if before is not None and same else place + 1
        tied = known.value is not None and one != first and not apart(first, one)
        made.append(
            Standing(
                rank, one, candidates[one].label, known.value, known.low, known.high, tied,
                known.wins, known.contests, known.failed,
            )
        )  # fmt: skip
    return tuple(made)
