"""`verdict rank CONFIG CANDIDATES`, and the battles of systems that it writes for a judge of pairs (`--systems`).

Without a number of battles it is a round robin: every two systems at every task. With one, each next battle is of the two
systems about whose difference the model knows least for what the battle can tell: the largest gain of information about the
strengths, `log(1 + p (1 - p) v)` with `v` the variance of their difference. Earlier battles, of a finished run, count.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import orjson
import typer
from msgspec import Struct
from scipy.special import expit

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.cli.judge import parse_row
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.multi_run import ask_to_spend
from verdict_cli.cli.options import AllowHost, AsJson, Concurrency, Config, Yes
from verdict_cli.cli.progress import show_progress
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.rank.arena_keys import arena_keys
from verdict_cli.features.rank.candidates import (
    Candidate,
    CandidateColumns,
    choosing_unit,
    find_candidate_columns,
    judges_both_orders,
    order_reader,
    read_candidates,
)
from verdict_cli.features.rank.strengths import battle_counts, read_contests
from verdict_cli.features.rank.tournament import (
    GROUP_ROUNDS,
    ROUND_ROBIN,
    SPREAD,
    Choice,
    CountingJudge,
    Ranking,
    Tournament,
    fit_ratings,
    rank_by_score,
    ranking_document,
    swiss_rounds,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.messages import Row
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.report.renderers.terminal import render_terminal
from verdict_cli.run.estimate import DryRun
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import reward_of
from verdict_cli.stats.columns.column import Floats, key_text


def write_battles(
    plan: Plan, files: Sequence[str], battles: int | None, after: Path | None, out: Path | None, seed: int
) -> None:
    """Write one row a battle, ready for `verdict run`. Raises DataError and UsageError."""
    from verdict_cli.cli.open_dataset import open_dataset
    from verdict_cli.report.study_files import write_rows
    from verdict_cli.run.load_run import load_run
    from verdict_cli.storage.datasets.read import stream_rows

    columns = battle_columns(plan)
    if len(files) != 1:
        raise UsageError("--systems takes one file of outputs", hint="or one folder, or a quoted glob")
    with tempfile.TemporaryDirectory() as spool:
        from verdict_cli.storage.datasets.dataset import Dataset

        opened = open_dataset(plan, files[0], Path(spool))
        dataset = Dataset(opened.files)
        outputs = read_outputs((row.source for row in stream_rows(dataset)), columns, files[0])
    judged = None
    if after is not None:
        directory, _, earlier = load_run(after)
        known = battle_columns(earlier)
        judged = earlier_battles(
            known.evaluation, earlier.studies[known.evaluation], directory.results, outputs.systems
        )
    chosen = [battle_row(outputs, *pairing) for pairing in pairings(outputs, battles, seed, judged)]
    counts = (
        f"{plural(len(chosen), 'battle')} of {plural(len(outputs.systems), 'system')} at {len(outputs.rows):,} tasks"
    )
    if battles is not None and len(chosen) < battles:
        counts += f" ({battles:,} were wanted: no other pairs are left)"
    if out is None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chosen))
        print_message(counts)
        return
    write_rows(out, chosen)
    print_message(f"{counts}: {out}\nJudge them: verdict run {plan.name} {out}")


_COLUMN = re.compile(r"source\.([A-Za-z_]\w*)")


class BattleColumns(Struct, frozen=True):
    """The columns of battles that a pipeline reads. `system` is the name before `_a` and `_b`."""

    evaluation: str
    system: str
    item: str


def battle_columns(plan: Plan) -> BattleColumns:
    """The columns of the pipeline's leaderboard of battles. UsageError if it has none, or if they have other names."""
    for name, evaluation in plan.studies.items():
        keys = arena_keys(evaluation)
        if keys is None or keys.winner is None:
            continue
        matches = [_COLUMN.fullmatch((text or "").strip()) for text in (keys.a, keys.b, keys.item)]
        a, b, item = (match.group(1) if match else "" for match in matches)
        if item and a.endswith("_a") and b == f"{a.removesuffix('_a')}_b":
            return BattleColumns(name, a.removesuffix("_a"), item)
        raise UsageError(
            f"evaluate.{name}: the columns of the two systems cannot be filled: `a` is {keys.a}, `b` is {keys.b}",
            hint="name them NAME_a and NAME_b, such as `a: source.system_a`, `b: source.system_b`, `item: source.task`",
        )
    raise UsageError(
        "--systems needs a pipeline with a leaderboard of battles",
        hint="such as evaluate: {leaderboard: {arena: {a: source.system_a, b: source.system_b, winner: output.choice, "
        "item: source.task}}}; `arena_battles` has one",
    )


class SystemOutputs(Struct, frozen=True):
    """The output of each system at each item: `rows` by item and system. `shared` are the columns that are equal for all
    systems of every item, such as the question."""

    systems: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
    shared: frozenset[str]

    def items_of(self, one: str, other: str) -> list[str]:
        """The items at which both have an output."""
        return [item for item, outputs in self.rows.items() if one in outputs and other in outputs]


def read_outputs(rows: Iterator[Mapping[str, Any]], columns: BattleColumns, file: str) -> SystemOutputs:
    """The outputs of a file. DataError for a row without its system or item, and for two outputs of one system."""
    outputs: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    systems: dict[str, None] = {}
    for number, row in enumerate(rows):
        for column in (columns.system, columns.item):
            if row.get(column) is None:
                has = ", ".join(row)
                message = f"row {number} has no {column!r}; it has {has:.200}"
                hint = "one row for each output of a system: the system, the task and its columns"
                raise DataError(Problem("missing-column", message, hint, file=file))
        system, item = key_text(row[columns.system]), key_text(row[columns.item])
        if system in outputs[item]:
            message = f"row {number}: {system!r:.60} has two outputs for {item!r:.60}"
            raise DataError(Problem("ambiguous-rows", message, "keep one output of each system for a task", file=file))
        systems[system] = None
        outputs[item][system] = row
    if len(systems) < 2:
        message = f"{plural(len(systems), 'system')}: battles need at least 2"
        raise DataError(Problem("too-few", message, f"the column {columns.system!r} names the system", file=file))
    return SystemOutputs(tuple(systems), outputs, frozenset(_shared(outputs)))


def _shared(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> set[str]:
    columns = {column for outputs in rows.values() for row in outputs.values() for column in row}
    for outputs in rows.values():
        first, *others = outputs.values()
        columns = {
            column for column in columns if all(column in row and row[column] == first.get(column) for row in others)
        }
    return columns - {"id"}


class EarlierBattles(Struct, frozen=True):
    """Earlier battles: the pairs of each item, and the strengths and information that they give."""

    met: frozenset[tuple[str, str, str]]
    strengths: Floats
    covariance: Floats


def earlier_battles(name: str, evaluation: Evaluation, results: Path, systems: Sequence[str]) -> EarlierBattles:
    """What a finished run knows of these systems; strengths have a prior, so that few battles are no certainty."""
    contests = read_contests(name, evaluation, results)
    index_of = {system: index for index, system in enumerate(systems)}
    wins, _ = battle_counts(contests.battles, len(contests.systems), np.zeros(contests.items, np.int64), 1)
    known = [(index, index_of[system]) for index, system in enumerate(contests.systems) if system in index_of]
    choices = [
        Choice(mine, (mine, yours), float(wins[0, one, other]))
        for one, mine in known
        for other, yours in known
        if wins[0, one, other]
    ]
    ratings = fit_ratings(len(systems), choices)
    information = np.eye(len(systems)) / SPREAD**2
    for choice in choices:
        one, other = choice.among
        p = float(expit(ratings.strengths[one] - ratings.strengths[other]))
        contrast = np.eye(len(systems))[one] - np.eye(len(systems))[other]
        information += choice.weight * p * (1 - p) * np.outer(contrast, contrast)
    items = [key_text(label) for label in contests.item_labels]
    met = frozenset(
        (items[item], *sorted((contests.systems[one], contests.systems[other])))
        for item, one, other in zip(
            contests.battles.item.tolist(),
            contests.battles.first.tolist(),
            contests.battles.second.tolist(),
            strict=True,
        )
    )
    return EarlierBattles(met, ratings.strengths, np.linalg.inv(information).astype(np.float64))


def pairings(
    outputs: SystemOutputs, battles: int | None, seed: int, judged: EarlierBattles | None = None
) -> Iterator[tuple[str, str, str]]:
    """Item, first and second system of each battle; which system is first is drawn."""
    draw = random.Random(seed)
    met = judged.met if judged is not None else frozenset()
    count = len(outputs.systems)
    left: dict[tuple[int, int], list[str]] = {}
    for one, other in combinations(range(count), 2):
        names = sorted((outputs.systems[one], outputs.systems[other]))
        items = [item for item in outputs.items_of(names[0], names[1]) if (item, names[0], names[1]) not in met]
        if items:
            draw.shuffle(items)
            left[one, other] = items
    if battles is None:
        order = {item: index for index, item in enumerate(outputs.rows)}
        everything = [(order[item], item, pair) for pair, items in left.items() for item in items]
        chosen: Iterator[tuple[str, tuple[int, int]]] = ((item, pair) for _, item, pair in sorted(everything))
    else:
        chosen = _most_informative(left, battles, count, judged, draw)
    for item, pair in chosen:
        one, other = pair if draw.random() < 0.5 else pair[::-1]
        yield item, outputs.systems[one], outputs.systems[other]


def _most_informative(
    left: dict[tuple[int, int], list[str]], battles: int, count: int, judged: EarlierBattles | None, draw: random.Random
) -> Iterator[tuple[str, tuple[int, int]]]:
    strengths = np.zeros(count) if judged is None else judged.strengths
    covariance = np.eye(count) * SPREAD**2 if judged is None else judged.covariance.copy()
    used: dict[str, int] = defaultdict(int)
    for _ in range(battles):
        pairs = sorted(left)
        if not pairs:
            return
        one, other = np.array(pairs).T
        chances = expit(strengths[one] - strengths[other])
        weight = chances * (1 - chances)
        variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        gain = np.log1p(weight * variance)
        best = np.flatnonzero(gain >= gain.max() - 1e-12)
        at = int(draw.choice(best.tolist()))
        pair = pairs[at]
        items = left[pair]
        item = min(
            items, key=lambda candidate: used[candidate]
        )  # items are shuffled; the least used one is new evidence
        items.remove(item)
        used[item] += 1
        if not items:
            del left[pair]
        change = covariance[:, pair[0]] - covariance[:, pair[1]]
        covariance -= np.outer(change, change) * weight[at] / (1 + weight[at] * variance[at])
        yield item, pair


def battle_row(outputs: SystemOutputs, item: str, first: str, second: str) -> dict[str, Any]:
    """The row of a battle: shared columns as they are, the others with `_a` and `_b`."""
    a, b = outputs.rows[item][first], outputs.rows[item][second]
    row: dict[str, Any] = {"id": f"{item}:{first}:{second}"}
    for column in dict.fromkeys((*a, *b)):
        if column == "id":
            continue
        if column in outputs.shared:
            row[column] = a[column]
        else:
            row |= {f"{column}_a": a.get(column), f"{column}_b": b.get(column)}
    return row


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


class _Workload(Struct, frozen=True):
    """What is judged, the most rows that it takes, and a few of them."""

    text: str
    rows: int
    sample: Sequence[Mapping[str, Any]]


Work = Callable[[CountingJudge], Coroutine[Any, Any, Ranking]]


class _RankingTask(Struct, frozen=True):
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
            return [{**self.shared, **candidate.value} for candidate in few if not isinstance(candidate.value, str)]
        texts = [candidate.text(self.options.field) for candidate in self.candidates[: _SAMPLE + where.count - 1]]
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
