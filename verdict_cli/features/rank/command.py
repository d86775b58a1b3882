"""`verdict rank CONFIG CANDIDATES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from verdict_cli.features.rank.candidates import read_candidates
from verdict_cli.messages import Row
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient

if TYPE_CHECKING:
    from verdict_cli.features.rank.tournament import CountingJudge, Ranking


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """What a candidate is, and how candidates are compared."""

    row: Annotated[
        str | None,
        typer.Option(
            "--row",
            metavar="JSON",
            help="The columns that all candidates share, such as the question.",
        ),
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
        str | None,
        typer.Option(
            "--field", metavar="NAME", help="The field of a candidate that holds its text."
        ),
    ] = None
    tournament: Annotated[
        Literal["auto", "round-robin", "swiss"],
        typer.Option(
            "--tournament",
            help="For judges of pairs: all pairs (auto: up to 12 candidates), or Swiss rounds.",
        ),
    ] = "auto"
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, help="Rounds of a Swiss tournament, or of groups."),
    ] = None
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            min=1,
            help="For judges that score: judgements per candidate. Two or more give intervals.",
        ),
    ] = 1
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward", metavar="EXPR", help="The score. [default: the output of the last step]"
        ),
    ] = None
    choice: Annotated[
        str | None,
        typer.Option(
            "--choice",
            metavar="EXPR",
            help="The winner: a letter, `tie`, or a list. [default: `choice` or `ranking`]",
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
            "--battles",
            min=1,
            help="With --systems: the most informative so many. [default: every pair at every task]",
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
            "--out",
            metavar="FILE",
            help="With --systems: the JSONL file of the battles. [default: standard output]",
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
    from verdict_cli.features.rank.leaderboard import write_battles
    from verdict_cli.features.rank.tournament import CountingJudge, RankingTask, ranking_document
    from verdict_cli.report.renderers.terminal import render_terminal

    plan = options.plan(config)
    if battling.systems:
        if ranking != RankOptions() or as_json:
            raise UsageError(
                "--systems takes --battles, --after, --out and --seed only",
                hint="remove the other options",
            )
        write_battles(
            plan, candidates, battling.battles, battling.after, battling.out, options.seed
        )
        return
    if battling != BattleOptions():
        raise UsageError(
            "--battles, --after and --out need --systems", hint="add --systems, or remove them"
        )
    shared = (
        {}
        if ranking.row is None
        else parse_row(ranking.row.encode("utf-8", "surrogateescape"), "--row")
    )
    task = RankingTask(plan, shared, read_candidates(candidates), ranking, options.seed)
    work = task.plan_work()
    replay = options.recording(plan)
    if not options.quiet:
        print_message(
            f"{work.text}: at most {work.rows:,} judgements, {work.rows * calls_a_row(plan):,} model calls"
        )
    options.warn_of_baselines(plan)
    if replay is None:
        sample = [Row(at, at, source) for at, source in enumerate(work.sample)]
        lines = DryRun(plan, options.seed, real=False).add(sample).lines(work.rows)
        ask_to_spend(
            f"{work.rows:,} judgements", [lines], [plan], at_most=True, yes=yes, quiet=options.quiet
        )
    store = options.store(plan, wanted=ranking.samples == 1)

    async def judge(on_progress: Callable[[Any], None]) -> tuple[Ranking, CountingJudge]:
        access = ModelClient.open(
            concurrency=concurrency, recording=replay, budget_usd=options.budget, store=store
        )
        try:
            judging = CountingJudge(
                await JudgeSession(plan, access, seed=options.seed).open(),
                work.rows,
                concurrency,
                on_progress,
            )
            return await work.rank(judging), judging
        finally:
            await access.close()

    try:
        with (
            show_progress(quiet=options.quiet) as on_progress,
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            standings, judging = runner.run(judge(on_progress))
    finally:
        if store is not None:
            store.close()
    outcome = ranking_document(
        plan.name, standings, calls=judging.stats.calls, cost_usd=judging.stats.cost_usd
    )
    if as_json:
        print_json(outcome.as_json())
    else:
        to_terminal(render_terminal(outcome))
    raise typer.Exit(3 if standings.failed else 0)
