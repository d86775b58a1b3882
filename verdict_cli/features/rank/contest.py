"""The result of contests, of systems or of candidates: values with intervals, and the ranks that the data allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs, to_builtins

from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plural import plural
from verdict_cli.report.conclusions import listed_names
from verdict_cli.report.document import Note
from verdict_cli.report.formatting import money
from verdict_cli.stats.columns.column import RowMask


class Judgements(Struct, frozen=True):
    """How many judgements a ranking took, how many of them failed, and their calls."""

    judgements: int
    failed: int
    calls: int
    cost_usd: float | None

    def note(self) -> Note:
        """The counts in one line."""
        return Note(
            f"{self.judgements:,} judgements · failed {self.failed:,} · calls {self.calls:,} · cost {money(self.cost_usd)}"
        )


class StandingValue(Struct, frozen=True):
    """A value with the ends of its interval, at 95% for all together; `uncontrolled` is it without `control`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    uncontrolled: float | None = None

    def as_json(self) -> JsonObject:
        """The value as reports have it."""
        content: JsonObject = to_builtins(self)
        if not self.reason:
            del content["reason"]
        if self.uncontrolled is None:
            del content["uncontrolled"]
        return content


class Standing(Struct, frozen=True):
    """A system or candidate: its rows or contests, its values by metric, and the best and worst rank that the data allow.

    ``index`` is a candidate's place among those that were given. ``rank`` is None for one of which nothing is known.
    """

    name: str
    n: int
    values: Mapping[str, StandingValue]
    rank: tuple[int, int] | None = None
    index: int = 0
    wins: float | None = None
    failed: int = 0


class Leaderboard(Struct, frozen=True):
    """The standings of one contest, best first by the metric `ranked_by`.

    `kind` is `arena` for systems, and `scores`, `pairs` or `groups` for candidates. `rows` are judgements, of which `missing`
    have no result. `wins` and `battles` are how often a system won against each other one (ties as one half) and met it, in
    the order of `standings`. `slopes` is what one unit of each control adds to the first metric. `consistency` says how a
    judge that compares candidates agrees with itself.
    """

    metrics: tuple[str, ...]
    ranked_by: str
    standings: tuple[Standing, ...]
    wins: tuple[tuple[float, ...], ...] = ()
    battles: tuple[tuple[int, ...], ...] = ()
    items: int = 0
    rows: int = 0
    missing: int = 0
    slopes: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    kind: str = "arena"
    consistency: NamedValues = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """What is ranked."""
        return "system" if self.kind == "arena" else "candidate"

    def summary_json(self) -> JsonObject:
        """What `verdict run --json` has of it."""
        return {"systems": self.standings_json()}

    def conclusion(self) -> str:
        """Which of them may be first, and how many rows it is without; the reason where there is no ranking."""
        if not any(standing.rank for standing in self.standings):
            nothing = "no candidate has a rank: every judgement failed" if self.rows else ""
            return self.warnings[0] if self.warnings else nothing
        counted = plural(self.rows, "row" if self.kind == "arena" else "judgement")
        without = f", without {self.missing:,} of {counted}" if self.missing else ""
        return f"{self._leaders()}{without}"

    def _leaders(self) -> str:
        first = [
            standing.name
            for standing in self.standings
            if standing.rank is not None and standing.rank[0] == 1
        ]
        among = plural(len(self.standings), self.noun)
        if len(first) == 1:
            return f"{listed_names(first)} is first of {among}"
        return f"{len(first)} of {among} may be first: {listed_names(first)}" if first else ""

    def standings_json(self) -> list[JsonObject]:
        """The standings as `--json` and `report.json` have them."""
        extra_fields = () if self.kind == "arena" else ("index", "wins", "failed")
        return [
            {
                self.noun: standing.name,
                "n": standing.n,
                **{metric: value.as_json() for metric, value in standing.values.items()},
                "rank": None if standing.rank is None else list(standing.rank),
                **{name: getattr(standing, name) for name in extra_fields},
            }
            for standing in self.standings
        ]

    def as_json(self) -> JsonObject:
        """Everything, for `report.json`."""
        content = to_builtins(self)
        for name in ("metrics", "standings", "kind", "consistency"):
            del content[name]
        return {"systems": self.standings_json(), **content}


def ranked(standings: Sequence[Standing], metric: str, better: RowMask) -> tuple[Standing, ...]:
    """The standings, best first by the metric; `better` says which (row) is significantly better than which (column).

    The best rank is one below the number of those that are significantly better, the worst one above those that are
    significantly worse (Mogstad, Romano, Shaikh and Wilhelm, 2024).
    """
    values = [standing.values[metric].value for standing in standings]
    count = len(standings)
    order = sorted(
        range(count),
        key=lambda index: (values[index] is None, -(values[index] or 0.0), index),
    )
    return tuple(
        structs.replace(
            standings[index],
            rank=(1 + int(better[:, index].sum()), count - int(better[index].sum())),
        )
        for index in order
    )
