"""`verdict rank CONFIG CANDIDATES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verdict_cli.cli.console import document, print_message
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import AllowHost, AsJson, Concurrency, Config
from verdict_cli.errors import DataError, Problem, UsageError

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan
    from verdict_cli.studies.rank.candidates import Candidate
    from verdict_cli.studies.rank.standings import CountingJudge, Ranking


def rank(
    config: Config,
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="JSONL or JSON files of candidates (texts or objects), text files of one candidate each, or - for JSONL."
        ),
    ],
    row: Annotated[
        str | None, typer.Option("--row", metavar="JSON", help="What all candidates share: the question, the source …")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAMES", help="The columns that take candidates, by commas. [default: the pipeline says]"
        ),
    ] = None,
    field: Annotated[
        str | None, typer.Option("--field", metavar="NAME", help="The field of a candidate that is its text.")
    ] = None,
    tournament: Annotated[
        Literal["auto", "round-robin", "swiss"],
        typer.Option("--tournament", help="Pairs: everybody against everybody (auto: up to 12), or Swiss rounds."),
    ] = "auto",
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Rounds of a Swiss tournament, or of groups.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Scores: judgements of each candidate; several give intervals.")
    ] = 1,
    reward: Annotated[
        str | None, typer.Option("--reward", metavar="EXPR", help="The score. [default: what the last step gives]")
    ] = None,
    choice: Annotated[
        str | None,
        typer.Option(
            "--choice", metavar="EXPR", help="Who won: a letter, `tie`, or a list. [default: `choice` or `ranking`]"
        ),
    ] = None,
    *,
    how: ModelOptions,
    allow_host: AllowHost = None,
    concurrency: Concurrency = 64,
    as_json: AsJson = False,
) -> None:
    """Pick among candidates: best of n by score, tournaments of pairs, or groups, as the judge is made.

    Pairs stand in both orders; strengths are Bradley-Terry's, with intervals and a check of consistency.

    Example: verdict rank pairwise_positions answers.jsonl --row '{"question": "…"}'
    """
    from verdict_cli.cli.progress import show_progress
    from verdict_cli.report.plan_graph import calls_a_row
    from verdict_cli.run.judge_session import JudgeSession
    from verdict_cli.run.local import loop_factory
    from verdict_cli.run.model_client import ModelClient
    from verdict_cli.studies.rank.candidates import read_candidates
    from verdict_cli.studies.rank.standings import CountingJudge

    plan = how.plan(config)
    asked = _Asked(
        plan,
        _shared(row),
        read_candidates(candidates),
        columns,
        field,
        tournament,
        rounds,
        samples,
        reward,
        choice,
        how.seed,
    )
    work, contests = asked.plan_work()
    recorded = how.recording(plan)
    if not how.quiet:
        print_message(
            f"{contests.words}: at most {contests.rows:,} judgements, {contests.rows * calls_a_row(plan):,} model calls"
        )
    how.warn_of_floors(plan)
    store = how.store(plan, wanted=samples == 1)

    async def judged(watch: Callable[[Any], None]) -> tuple[Ranking, CountingJudge]:
        access = ModelClient.open(concurrency=concurrency, recording=recorded, budget_usd=how.budget, store=store)
        try:
            judging = CountingJudge(
                await JudgeSession(plan, access, seed=how.seed).open(), contests.rows, concurrency, watch
            )
            return await work(judging), judging
        finally:
            await access.close()

    try:
        with show_progress(quiet=how.quiet) as watch, asyncio.Runner(loop_factory=loop_factory()) as runner:
            ranking, judging = runner.run(judged(watch))
    finally:
        if store is not None:
            store.close()
    from verdict_cli.studies.rank.standings import ranking_document

    outcome = ranking_document(plan.name, ranking, calls=judging.stats.calls, cost_usd=judging.stats.cost_usd)
    if as_json:
        document(outcome.data())
    else:
        from verdict_cli.cli.write_report import to_terminal
        from verdict_cli.report.renderers.terminal import render_terminal

        to_terminal(render_terminal(outcome))
    raise typer.Exit(3 if ranking.failed else 0)


@dataclass(frozen=True)
class _Contests:
    """What is going to be judged, and how many rows that is at most."""

    words: str
    rows: int


Work = Callable[["CountingJudge"], Coroutine[Any, Any, "Ranking"]]


@dataclass(frozen=True)
class _Asked:
    """The command line of a ranking."""

    plan: Plan
    shared: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    columns: str | None
    field: str | None
    tournament: str
    rounds: int | None
    samples: int
    reward: str | None
    choice: str | None
    seed: int

    def plan_work(self) -> tuple[Work, _Contests]:
        """How the candidates are ranked. UsageError where the pipeline does not say it, or an option does not fit."""
        from verdict_cli.studies.rank.candidate_columns import choosing_unit, find_candidate_columns

        named = tuple(name.strip() for name in self.columns.split(",")) if self.columns else ()
        own = not named and self.field is None and all(not isinstance(one.value, str) for one in self.candidates)
        if own and choosing_unit(self.plan) is None:
            return self._scores(None)
        where = find_candidate_columns(self.plan, self.shared, named)
        if where.count == 1:
            return self._scores(where)
        if self.samples > 1 or self.reward is not None:
            raise UsageError("--samples and --reward are for judges that score", hint="this one compares")
        return self._contests(where)

    def _scores(self, where: Any) -> tuple[Work, _Contests]:
        from verdict_cli.run.reward import reward_of
        from verdict_cli.studies.rank.pointwise import rank_by_score

        if self.rounds is not None or self.choice is not None or self.tournament != "auto":
            raise UsageError("--tournament, --rounds and --choice are for judges that compare", hint="this one scores")
        reward = reward_of(self.plan, self.reward)
        count = len(self.candidates)
        each = "" if self.samples == 1 else f", {self.samples} judgements each"
        return (
            lambda judging: rank_by_score(
                judging, reward, where, self.shared, self.candidates, self.samples, self.field
            ),
            _Contests(f"{count} candidates scored{each}", count * self.samples),
        )

    def _contests(self, where: Any) -> tuple[Work, _Contests]:
        from verdict_cli.studies.rank.candidate_columns import judges_both_orders, order_reader
        from verdict_cli.studies.rank.tournament import GROUP_ROUNDS, ROUND_ROBIN, Tournament, swiss_rounds

        count, size = len(self.candidates), where.count
        read = order_reader(self.plan, self.choice, size)
        texts = [candidate.text(self.field) for candidate in self.candidates]
        twice = size == 2 and not judges_both_orders(self.plan)

        def compared(judging: CountingJudge) -> Tournament:
            return Tournament(judging, read, where, self.shared, self.candidates, texts, twice)

        if size > 2:
            if count < size:
                raise UsageError(
                    f"the judge chooses among {size}, here are {count} candidates", hint=f"give at least {size}"
                )
            if self.tournament != "auto":
                raise UsageError("--tournament is for judges of pairs", hint="--rounds says how often groups are made")
            times = self.rounds or GROUP_ROUNDS
            rows = times * -(-count // size)
            return (
                lambda judging: compared(judging).rank_groups(times, self.seed),
                _Contests(f"{count} candidates in groups of {size}, {times} rounds", rows),
            )
        swiss = self.tournament == "swiss" or (self.tournament == "auto" and (self.rounds or count > ROUND_ROBIN))
        if self.tournament == "round-robin" and self.rounds is not None:
            raise UsageError("--rounds is for a Swiss tournament", hint="leave --tournament or --rounds out")
        number = (self.rounds or swiss_rounds(count)) if swiss else None
        pairs = number * (count // 2) if number is not None else count * (count - 1) // 2
        form = f"a Swiss tournament of {number} rounds" if number is not None else "everybody against everybody"
        return (
            lambda judging: compared(judging).rank_pairs(number, self.seed),
            _Contests(f"{count} candidates, {form}, {pairs} pairs in both orders", pairs * (2 if twice else 1)),
        )


def _shared(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    from verdict_cli.storage.datasets.json_files import parse_json_line

    found = parse_json_line(text.encode("utf-8", "surrogateescape"))
    if isinstance(found, Problem):
        raise DataError(found.at("--row", 0, found.column, ""))
    return found
