"""`verdict rank CONFIG CANDIDATES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.cli.judge import parse_row
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.multi_run import ask_to_spend
from verdict_cli.cli.options import AllowHost, AsJson, Concurrency, Config, Yes
from verdict_cli.cli.progress import show_progress
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import UsageError
from verdict_cli.features.rank.candidates import (
    Candidate,
    CandidateColumns,
    choosing_unit,
    find_candidate_columns,
    judges_both_orders,
    order_reader,
    read_candidates,
)
from verdict_cli.features.rank.standings import CountingJudge, Ranking, rank_by_score, ranking_document
from verdict_cli.features.rank.system_battles import write_battles
from verdict_cli.features.rank.tournament import GROUP_ROUNDS, ROUND_ROBIN, Tournament, swiss_rounds
from verdict_cli.messages import Row
from verdict_cli.plural import plural
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.report.renderers.terminal import render_terminal
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import reward_of

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


_SAMPLE = 20
"""Candidates from which the cost is estimated."""


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """What a candidate is, and how candidates are compared."""

    row: Annotated[
        str | None,
        typer.Option("--row", metavar="JSON", help="The columns that all candidates share, such as the question."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAMES",
            help="The columns that take candidates, separated by commas. [default: from the pipeline]",
        ),
    ] = None
    field: Annotated[
        str | None, typer.Option("--field", metavar="NAME", help="The field of a candidate that holds its text.")
    ] = None
    tournament: Annotated[
        Literal["auto", "round-robin", "swiss"],
        typer.Option(
            "--tournament", help="For judges of pairs: all pairs (auto: up to 12 candidates), or Swiss rounds."
        ),
    ] = "auto"
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Rounds of a Swiss tournament, or of groups.")
    ] = None
    samples: Annotated[
        int,
        typer.Option(
            "--samples", min=1, help="For judges that score: judgements per candidate. Two or more give intervals."
        ),
    ] = 1
    reward: Annotated[
        str | None, typer.Option("--reward", metavar="EXPR", help="The score. [default: the output of the last step]")
    ] = None
    choice: Annotated[
        str | None,
        typer.Option(
            "--choice", metavar="EXPR", help="The winner: a letter, `tie`, or a list. [default: `choice` or `ranking`]"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BattleOptions:
    """The battles that are written in place of a ranking."""

    systems: Annotated[
        bool,
        typer.Option(
            "--systems",
            help="Judge nothing: CANDIDATES are outputs of several systems for the same tasks. Write the battles that the leaderboard of CONFIG needs.",
        ),
    ] = False
    battles: Annotated[
        int | None,
        typer.Option(
            "--battles", min=1, help="With --systems: the most informative so many. [default: every pair at every task]"
        ),
    ] = None
    after: Annotated[
        Path | None,
        typer.Option(
            "--after",
            metavar="RUN",
            help="With --systems: a finished run whose battles are not repeated and say which are informative.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="With --systems: the JSONL file of the battles. [default: standard output]"
        ),
    ] = None


def rank(
    config: Config,
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="JSONL or JSON files of candidates (texts or objects), text files with one candidate each, or - for JSONL on standard input."
        ),
    ],
    ranking: RankOptions,
    battling: BattleOptions,
    *,
    options: ModelOptions,
    allow_host: AllowHost = None,
    concurrency: Concurrency = 64,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Rank candidates: by score, by a tournament of pairs, or in groups, depending on what the judge compares.

    Pairs are judged in both orders. Strengths are Bradley-Terry estimates, with intervals and a consistency check. With
    --systems it writes the rows of battles between systems, which `verdict run` judges.

    Example: verdict rank pairwise_positions answers.jsonl --field answer --row '{"question": "What is 2 + 2?"}' --model baseline/lexical
    """
    plan = options.plan(config)
    if battling.systems:
        if ranking != RankOptions() or as_json:
            raise UsageError(
                "--systems takes --battles, --after, --out and --seed only", hint="remove the other options"
            )
        write_battles(plan, candidates, battling.battles, battling.after, battling.out, options.seed)
        return
    if battling != BattleOptions():
        raise UsageError("--battles, --after and --out need --systems", hint="add --systems, or remove them")
    shared = {} if ranking.row is None else parse_row(ranking.row.encode("utf-8", "surrogateescape"), "--row")
    task = _RankingTask(plan, shared, read_candidates(candidates), ranking, options.seed)
    work, workload = task.plan_work()
    replay = options.recording(plan)
    if not options.quiet:
        print_message(
            f"{workload.text}: at most {workload.rows:,} judgements, {workload.rows * calls_a_row(plan):,} model calls"
        )
    options.warn_of_baselines(plan)
    if replay is None:
        sample = [Row(at, at, source) for at, source in enumerate(workload.sample)]
        lines = DryRun(plan, options.seed, real=False).add(sample).lines(workload.rows)
        ask_to_spend(f"{workload.rows:,} judgements", [lines], [plan], at_most=True, yes=yes, quiet=options.quiet)
    store = options.store(plan, wanted=ranking.samples == 1)

    async def judge(on_progress: Callable[[Any], None]) -> tuple[Ranking, CountingJudge]:
        access = ModelClient.open(concurrency=concurrency, recording=replay, budget_usd=options.budget, store=store)
        try:
            judging = CountingJudge(
                await JudgeSession(plan, access, seed=options.seed).open(), workload.rows, concurrency, on_progress
            )
            return await work(judging), judging
        finally:
            await access.close()

    try:
        with show_progress(quiet=options.quiet) as on_progress, asyncio.Runner(loop_factory=loop_factory()) as runner:
            standings, judging = runner.run(judge(on_progress))
    finally:
        if store is not None:
            store.close()
    outcome = ranking_document(plan.name, standings, calls=judging.stats.calls, cost_usd=judging.stats.cost_usd)
    if as_json:
        print_json(outcome.as_json())
    else:
        to_terminal(render_terminal(outcome))
    raise typer.Exit(3 if standings.failed else 0)


@dataclass(frozen=True)
class _Workload:
    """What is judged, the most rows that it takes, and a few of them."""

    text: str
    rows: int
    sample: Sequence[Mapping[str, Any]]


Work = Callable[[CountingJudge], Coroutine[Any, Any, Ranking]]


@dataclass(frozen=True)
class _RankingTask:
    """The arguments of `verdict rank`."""

    plan: Plan
    shared: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    options: RankOptions
    seed: int

    def plan_work(self) -> tuple[Work, _Workload]:
        """Return the ranking to run and its size. UsageError if the pipeline or an option does not fit."""
        named = tuple(name.strip() for name in self.options.columns.split(",")) if self.options.columns else ()
        are_rows = (
            not named
            and self.options.field is None
            and all(not isinstance(candidate.value, str) for candidate in self.candidates)
        )
        if are_rows and choosing_unit(self.plan) is None:
            return self._score(None)
        where = find_candidate_columns(self.plan, self.shared, named)
        if where.count == 1:
            return self._score(where)
        if self.options.samples > 1 or self.options.reward is not None:
            raise UsageError("--samples and --reward need a judge that scores", hint="this one compares")
        return self._compare(where)

    def _sample(self, where: CandidateColumns | None) -> list[Mapping[str, Any]]:
        """Rows of a few candidates, as the judge reads them."""
        if where is None:
            few = self.candidates[:_SAMPLE]
            return [{**self.shared, **each.value} for each in few if not isinstance(each.value, str)]
        texts = [each.text(self.options.field) for each in self.candidates[: _SAMPLE + where.count - 1]]
        starts = range(max(1, len(texts) - where.count + 1))
        return [where.row(self.shared, texts[start : start + where.count]) for start in starts]

    def _score(self, where: CandidateColumns | None) -> tuple[Work, _Workload]:
        if self.options.rounds is not None or self.options.choice is not None or self.options.tournament != "auto":
            raise UsageError("--tournament, --rounds and --choice need a judge that compares", hint="this one scores")
        reward = reward_of(self.plan, self.options.reward)
        count = len(self.candidates)
        times = "" if self.options.samples == 1 else f", {self.options.samples} judgements each"
        return (
            lambda judging: rank_by_score(
                judging, reward, where, self.shared, self.candidates, self.options.samples, self.options.field
            ),
            _Workload(f"{plural(count, 'candidate')} scored{times}", count * self.options.samples, self._sample(where)),
        )

    def _compare(self, where: CandidateColumns) -> tuple[Work, _Workload]:
        count, size = len(self.candidates), where.count
        read = order_reader(self.plan, self.options.choice, size)
        texts = [candidate.text(self.options.field) for candidate in self.candidates]
        twice = size == 2 and not judges_both_orders(self.plan)

        def tournament(judging: CountingJudge) -> Tournament:
            return Tournament(judging, read, where, self.shared, self.candidates, texts, twice)

        if size > 2:
            if count < size:
                raise UsageError(
                    f"the judge chooses among {size}, but there are {plural(count, 'candidate')}",
                    hint=f"give at least {size}",
                )
            if self.options.tournament != "auto":
                raise UsageError(
                    "--tournament needs a judge of pairs", hint="--rounds sets how many rounds of groups are judged"
                )
            times = self.options.rounds or GROUP_ROUNDS
            rows = times * -(-count // size)
            return (
                lambda judging: tournament(judging).rank_groups(times, self.seed),
                _Workload(
                    f"{plural(count, 'candidate')} in groups of {size}, {times} rounds", rows, self._sample(where)
                ),
            )
        swiss = self.options.tournament == "swiss" or (
            self.options.tournament == "auto" and (self.options.rounds or count > ROUND_ROBIN)
        )
        if self.options.tournament == "round-robin" and self.options.rounds is not None:
            raise UsageError("--rounds needs a Swiss tournament", hint="remove --tournament or --rounds")
        number = (self.options.rounds or swiss_rounds(count)) if swiss else None
        pairs = number * (count // 2) if number is not None else count * (count - 1) // 2
        form = f"a Swiss tournament of {number} rounds" if number is not None else "all pairs"
        return (
            lambda judging: tournament(judging).rank_pairs(number, self.seed),
            _Workload(
                f"{plural(count, 'candidate')}, {form}, {plural(pairs, 'pair')} in both orders",
                pairs * (2 if twice else 1),
                self._sample(where),
            ),
        )
