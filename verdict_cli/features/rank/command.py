"""`verdict rank CONFIG CANDIDATES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.cli.judge import row_of_option
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.multi_run import ask_to_spend, stopping
from verdict_cli.cli.options import AllowHost, AsJson, Concurrency, Config, Yes
from verdict_cli.cli.progress import show_progress
from verdict_cli.cli.show_report import print_document
from verdict_cli.errors import UsageError
from verdict_cli.features.rank.candidates import read_candidates
from verdict_cli.llm.middleware.budget import HaltedError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.chain import StopSignal
from verdict_cli.messages import Row
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import Halt, Stop
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient

if TYPE_CHECKING:
    from verdict_cli.features.rank.contest import Judgements
    from verdict_cli.features.rank.tournament import CountingJudge, RankingWork
    from verdict_cli.plan.node import Plan
    from verdict_cli.report.document import ReportDocument
    from verdict_cli.run_facts import Counts


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
class BestOfNOptions:
    """How the rows of a dataset are candidates of many prompts."""

    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            metavar="EXPR",
            help="CANDIDATES is a dataset with a row for each candidate of many prompts: the prompt of a row, such as source.question. Tells the accuracy of the best of n.",
        ),
    ] = None
    correct: Annotated[
        str | None,
        typer.Option(
            "--correct",
            metavar="EXPR",
            help="With --prompt: whether a candidate is right, such as source.correct.",
        ),
    ] = None

    def check(self, candidates: list[str], row: str | None) -> None:
        """Raises UsageError for options that do not go together."""
        if (self.prompt is None) != (self.correct is None):
            raise UsageError("--prompt and --correct need each other", hint="give both")
        if self.prompt is not None and len(candidates) != 1:
            raise UsageError("--prompt takes one dataset", hint="or one folder, or a quoted glob")
        if self.prompt is not None and row is not None:
            raise UsageError(
                "--prompt takes the shared columns from the dataset", hint="remove --row"
            )


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
            help="With --systems: so many, spread over the pairs. [default: every pair at every task]",
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
    best_of_n: BestOfNOptions,
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
    from verdict_cli.features.rank.contest import Judgements
    from verdict_cli.features.rank.leaderboard import write_battles
    from verdict_cli.features.rank.tournament import RankingTask, ranking_document

    best_of_n.check(candidates, ranking.row)
    plan = options.plan(config)
    if battling.systems:
        if ranking != RankOptions() or as_json:
            raise UsageError(
                "--systems takes --battles, --out and --seed only",
                hint="remove the other options",
            )
        write_battles(plan, candidates, battling.battles, battling.out, options.seed)
        return
    if battling != BattleOptions():
        raise UsageError("--battles and --out need --systems", hint="add --systems, or remove them")
    session = RankingSession(plan, options, concurrency, ranking.samples == 1, yes)
    if best_of_n.prompt is not None and best_of_n.correct is not None:
        document, counts = _rank_prompts(
            plan, candidates[0], best_of_n.prompt, best_of_n.correct, ranking, options, session
        )
    else:
        shared = {}
        if ranking.row is not None:
            shared = row_of_option(ranking.row)
        task = RankingTask(plan, shared, read_candidates(candidates), ranking, options.seed)
        work = task.plan_work()
        board, stats = session.run(work, work.rank)
        counts = Judgements(board.rows, board.missing, stats.calls, stats.cost_usd)
        document = ranking_document(plan.name, board, counts)
    print_document(document, as_json=as_json)
    raise typer.Exit(3 if counts.failed else 0)


Ranked = TypeVar("Ranked")


@dataclass
class RankingSession:
    """The calls of one command: their cost is told, they share limits, budget and cache."""

    plan: Plan
    options: ModelOptions
    concurrency: int
    cached: bool
    yes: bool

    def run(
        self, work: RankingWork, rank: Callable[[CountingJudge], Coroutine[Any, Any, Ranked]]
    ) -> tuple[Ranked, Counts]:
        """What `rank` gives, and the counts of its judgements; `work` says what it costs at most."""
        from verdict_cli.features.rank.tournament import CountingJudge

        plan, options = self.plan, self.options
        replay = options.recording(plan)
        if not options.quiet:
            calls = work.rows * calls_a_row(plan)
            print_message(f"{work.text}: at most {work.rows:,} judgements, {calls:,} model calls")
        options.warn_of_baselines(plan)
        if replay is None:
            sample = [Row(index, index, source) for index, source in enumerate(work.sample)]
            lines = DryRun(plan, options.seed, real=False).add(sample).lines(work.rows)
            purpose = f"{work.rows:,} judgements"
            ask_to_spend(purpose, [lines], [plan], at_most=True, yes=self.yes, quiet=options.quiet)
        stop = Stop()

        async def judge(
            store: CacheStore | None, on_progress: Callable[[Any], None]
        ) -> tuple[Ranked, Counts]:
            halt = Halt(stop)
            signal = StopSignal(halt.is_set, halt.fail)
            access = ModelClient.open(
                concurrency=self.concurrency,
                recording=replay,
                budget_usd=options.budget,
                store=store,
            )

            async def ranked() -> tuple[Ranked, Counts]:
                session = JudgeSession(plan, access, seed=options.seed, signal=signal)
                judging = CountingJudge(
                    await session.open(), work.rows, self.concurrency, on_progress
                )
                return await rank(judging), judging.stats

            task = asyncio.create_task(ranked())
            try:
                await halt.wait_for({task})
                return task.result()
            except (HaltedError, asyncio.CancelledError):
                raise KeyboardInterrupt from None
            finally:
                stop.release()
                await access.close()

        with (
            options.opened_store(plan, wanted=self.cached) as store,
            stopping(stop),
            show_progress(quiet=options.quiet) as on_progress,
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            return runner.run(judge(store, on_progress))


def _rank_prompts(
    plan: Plan,
    data: str,
    prompt: str,
    correct: str,
    ranking: RankOptions,
    options: ModelOptions,
    session: RankingSession,
) -> tuple[ReportDocument, Judgements]:
    """The document of the best of n over many prompts, and the counts of its judgements."""
    from verdict_cli.features.rank.best_of_n import (
        best_of_n_document,
        curve,
        plan_prompts,
        rank_prompts,
        read_prompts,
    )
    from verdict_cli.features.rank.contest import Judgements

    prompts = read_prompts(plan, data, prompt, correct)
    whole, works = plan_prompts(plan, prompts, ranking, options.seed)
    boards, stats = session.run(whole, lambda judge: rank_prompts(works, judge))
    points = curve(prompts, boards, plan.interval_level)
    judgements, failed = (
        sum(getattr(board, name) for board in boards) for name in ("rows", "missing")
    )
    counts = Judgements(judgements, failed, stats.calls, stats.cost_usd)
    return best_of_n_document(plan.name, boards[0].kind, points, counts), counts
