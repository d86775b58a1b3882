"""A ranking as a value: ranks, intervals, who is not significantly different from rank 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isclose
from typing import Any

from verdict_cli.messages import Result
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.studies.rank.candidates import Candidate


class Judging:
    """A judge that counts. ``rows`` is how many it will judge at most."""

    def __init__(self, warm: JudgeSession, rows: int, at_once: int, watch: Callable[[Progress], None]) -> None:
        self.tally = RunStats(rows)
        self._warm = warm
        self._at_once = at_once
        self._watch = watch
        self._next = 0

    async def all(self, rows: Sequence[Mapping[str, Any]]) -> list[Result]:
        """The rows' outcomes, in their order. Rows are numbered on through all calls."""
        made = await self._warm.judge_all(rows, self._counted, self._at_once, self._next)
        self._next += len(rows)
        return made

    def _counted(self, result: Result) -> Result:
        self.tally.add(result)
        self._watch(self.tally.progress(self._warm.access.gates))
        return result


_SAME = 1e-6
"""Values closer than this share a rank: a fit ends a little before its optimum."""


@dataclass(frozen=True)
class RankedCandidate:
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
    standings: tuple[RankedCandidate, ...]
    judgements: int
    failed: int
    consistency: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
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
class CandidateResult:
    """What is known of one candidate before the places are given."""

    value: float | None
    low: float | None = None
    high: float | None = None
    wins: float | None = None
    contests: int = 0
    failed: int = 0


def rank_candidates(
    candidates: Sequence[Candidate], found: Sequence[CandidateResult], apart: Callable[[int, int], bool]
) -> tuple[RankedCandidate, ...]:
    """The candidates, best first; equal values share a rank. ``apart`` says whether two can be told from one another."""
    order = sorted(range(len(found)), key=lambda one: (found[one].value is None, -(found[one].value or 0.0), one))
    first = order[0]
    made: list[RankedCandidate] = []
    for place, one in enumerate(order):
        known = found[one]
        rank: int | None = None
        if known.value is not None:
            before = made[-1] if made else None
            same = before is not None and before.value is not None and isclose(before.value, known.value, abs_tol=_SAME)
            rank = before.rank if before is not None and same else place + 1
        tied = known.value is not None and one != first and not apart(first, one)
        made.append(
            RankedCandidate(
                rank, one, candidates[one].label, known.value, known.low, known.high, tied,
                known.wins, known.contests, known.failed,
            )
        )  # fmt: skip
    return tuple(made)
