"""Accuracy of a pooled verdict by its number of votes, measured on the recorded replies of real judges.

    python benchmarks/curves.py RECORDINGS                  # remakes docs/curves.csv and docs/images/curves_*.svg
    python benchmarks/curves.py RECORDINGS triviaqa --k 5   # prints one point

Each vote is read by the pipelines of `configs/reproductions` from a recorded reply, and pooled by a pool unit of `verdict_cli`.
A point is the mean over all subsets of k votes, or over 1,000 seeded ones where there are more, and over all orders of a subset,
so that neither the file's order nor the choice of judges counts. A row on which no vote can be read is wrong. The interval is
that of the mean over rows.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from verdict_cli.errors import DataError, VerdictError
from verdict_cli.features.benchmarks.bench_command import run_case
from verdict_cli.features.benchmarks.recorded import PROMPTS, Case, select_cases
from verdict_cli.language.units.pools import MeanPoolUnit, MedianPoolUnit, ModePoolUnit, Pool
from verdict_cli.report.charts import PlanePoint, Scatter, Series
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval
from verdict_cli.storage.tables.reader import read_table

DOCS = Path(__file__).resolve().parent.parent / "docs"
MOST_SUBSETS = 1000
SEED = 0
RATINGS = (
    "Rating",
    "Rating_Metrics",
    "Rating_Metrics_Reference",
    "Rating_NoRules",
    "Rating_Reference",
)
SAMPLES, JUDGES, SCORES = "samples", "judges", "scores"
KINDS = {
    SAMPLES: "Repeated samples of one judge",
    JUDGES: "Different judges, one vote each",
    SCORES: "Scores by different prompts of one judge",
}
Vote = Any
"""A label, or the scores of two answers; None where the reply cannot be read."""


@dataclass(frozen=True)
class Votes:
    """The votes on each row, in columns of equal standing, the right answer, and what belongs together."""

    votes: list[tuple[Vote, ...]]
    targets: list[Any]
    clusters: list[Any]


@dataclass(frozen=True)
class Curve:
    """A pool over the votes of some recorded judges."""

    name: str
    kind: str
    title: str
    recordings: str
    votes: Callable[[Path], Votes]
    pool: Pool


@dataclass(frozen=True)
class Point:
    """Accuracy with k votes."""

    curve: str
    pool: str
    k: int
    subsets: int
    rows: int
    calls: int
    accuracy: float
    low: float
    high: float


def case_table(case: Case, columns: Sequence[str]) -> list[dict[str, Any]]:
    """These columns of the results of a recorded case."""
    with tempfile.TemporaryDirectory(prefix="verdict-") as folder:
        results = run_case(case, Path(folder)).directory.results
        return [
            dict(zip(columns, values, strict=True))
            for batch in read_table(results, columns)
            for values in zip(*(batch[name] for name in columns), strict=True)
        ]


def cases_of(name: str, data: Path) -> list[Case]:
    """The cases of that name. DataError where a file of them is missing."""
    cases, skipped = select_cases(name, data)
    if skipped:
        raise DataError(next(iter(skipped.values())))
    return cases


def samples_of(judge: str) -> Callable[[Path], Votes]:
    """Five samples of one of ReaLMistake's judges."""

    def votes(data: Path) -> Votes:
        (case,) = cases_of(f"realmistake/gpt-4-0613/{judge}/self-consistency", data)
        names = [f"judge[{index}].label" for index in range(5)]
        rows = case_table(case, ["id", "source.label", *names])
        return Votes(
            [tuple(row[name] for name in names) for row in rows],
            [row["source.label"] for row in rows],
            [row["id"] for row in rows],
        )

    return votes


def judges_of(responder: str) -> Callable[[Path], Votes]:
    """One vote of each of ReaLMistake's twelve judges, by the first prompt."""

    def votes(data: Path) -> Votes:
        cases = [
            case
            for case in cases_of(f"realmistake/{responder}", data)
            if case.name.endswith(PROMPTS[0])
        ]
        tables = [
            {row["id"]: row for row in case_table(case, ["id", "source.label", "output.label"])}
            for case in cases
        ]
        ids = list(tables[0])
        return Votes(
            [tuple(_said(table[row]["output.label"]) for table in tables) for row in ids],
            [tables[0][row]["source.label"] for row in ids],
            ids,
        )

    return votes


def _said(label: str) -> str | None:
    return None if label == "nothing" else label


def triviaqa(data: Path) -> Votes:
    """Eleven judges of the answers of nine models to 400 questions; the answers to one question belong together."""
    (case,) = cases_of("triviaqa", data)
    judges = list(next(iter(case.inputs()[0]))["judges"])
    names = [f"{judge}.score" for judge in judges]
    rows = case_table(case, ["source.question", "source.human", *names])
    labelled = [row for row in rows if row["source.human"] is not None]
    return Votes(
        [tuple(row[name] for name in names) for row in labelled],
        [row["source.human"] for row in labelled],
        [row["source.question"] for row in labelled],
    )


def ratings(data: Path) -> Votes:
    """GPT-4's scores of the two outputs of LLMBar's pairs, by each of its rating prompts."""
    votes: list[tuple[Vote, ...]] = []
    targets: list[Any] = []
    columns = ["source.label", "score_1.score", "score_2.score"]
    for subset in ("Natural", "GPTOut", "Manual"):
        tables = [
            case_table(cases_of(f"llmbar/GPT-4/{subset}/{prompt}", data)[0], columns)
            for prompt in RATINGS
        ]
        for row in zip(*tables, strict=True):
            votes.append(tuple(_scores(*list(cells.values())[1:]) for cells in row))
            targets.append(row[0]["source.label"])
    return Votes(votes, targets, list(range(len(votes))))


def _scores(first: int | None, second: int | None) -> tuple[int, int] | None:
    return None if first is None or second is None else (first, second)


VOTE = ModePoolUnit()
CURVES = (
    *(
        Curve(
            f"samples-{short}",
            SAMPLES,
            judge,
            "realmistake",
            samples_of(judge),
            VOTE,
        )
        for short, judge in (
            ("gpt-4", "gpt-4-0125-preview"),
            ("gpt-3.5", "gpt-3.5-turbo-0125"),
            ("mixtral", "Mixtral-8x7B-Instruct-v0.1"),
        )
    ),
    Curve("triviaqa", JUDGES, "TriviaQA, 11 judges", "triviaqa", triviaqa, VOTE),
    Curve(
        "realmistake-gpt-4",
        JUDGES,
        "ReaLMistake on GPT-4, 12 judges",
        "realmistake",
        judges_of("gpt-4-0613"),
        VOTE,
    ),
    Curve(
        "realmistake-llama-2",
        JUDGES,
        "ReaLMistake on Llama 2, 12 judges",
        "realmistake",
        judges_of("Llama-2-70b-chat-hf"),
        VOTE,
    ),
    Curve("ratings-mean", SCORES, "mean of GPT-4's ratings", "llmbar", ratings, MeanPoolUnit()),
    Curve(
        "ratings-median",
        SCORES,
        "median of GPT-4's ratings",
        "llmbar",
        ratings,
        MedianPoolUnit(),
    ),
)


def subsets(count: int, k: int) -> list[tuple[int, ...]]:
    """All subsets of k of so many votes, or 1,000 drawn ones."""
    if math.comb(count, k) <= MOST_SUBSETS:
        return list(itertools.combinations(range(count), k))
    rng = random.Random(f"{SEED} {count} {k}")
    return [tuple(sorted(rng.sample(range(count), k))) for _ in range(MOST_SUBSETS)]


def rightness(pool: Pool, target: Any, votes: Sequence[Vote]) -> float:
    """How often the pooled verdict of these votes is right, over all orders of them."""
    if not votes:
        return 0.0
    if isinstance(pool, ModePoolUnit):
        # The first of the tied values wins, and each is the first equally often.
        orders = [sorted(votes, key=lambda vote, value=value: vote != value) for value in votes]
        winners = {pool.pool(order, None) for order in orders}
        return (target in winners) / len(winners)
    first, second = (pool.pool(scores, None) for scores in zip(*votes, strict=True))
    return 0.5 if first == second else float((first < second) + 1 == target)


def points(curve: Curve, data: Path, only: int | None = None) -> Iterator[Point]:
    """The curve's points, or the one with k votes."""
    recorded = curve.votes(data)
    count = len(recorded.votes[0])

    @cache
    def right(target: Any, votes: tuple[Vote, ...]) -> float:
        return rightness(curve.pool, target, votes)

    for k in range(1, count + 1) if only is None else (only,):
        chosen = subsets(count, k)
        means = []
        for votes, target in zip(recorded.votes, recorded.targets, strict=True):
            pooled = (
                right(
                    target,
                    tuple(sorted(votes[index] for index in subset if votes[index] is not None)),
                )
                for subset in chosen
            )
            means.append(math.fsum(pooled) / len(chosen))
        clusters = np.unique(np.array(recorded.clusters), return_inverse=True)[1]
        clusters = None if len(set(clusters.tolist())) == len(means) else clusters
        mean = mean_with_interval(
            np.round(means, 12), clusters, Draw(np.random.default_rng(SEED)), (0.0, 1.0)
        )
        assert mean.value is not None and mean.low is not None and mean.high is not None
        ends = (round(number, 4) for number in (mean.value, mean.low, mean.high))
        name = curve.pool.type_name
        yield Point(curve.name, name, k, len(chosen), len(means), k * len(means), *ends)


def as_csv(measured: Sequence[Point]) -> str:
    """The points as the content of docs/curves.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Point))
    writer.writerows(astuple(point) for point in measured)
    return text.getvalue()


def chart(kind: str, measured: Sequence[Point]) -> Scatter:
    """The curves of one kind as a chart of a report."""
    series = [
        Series(
            curve.title,
            [
                PlanePoint(point.k, point.accuracy, point.low, point.high)
                for point in measured
                if point.curve == curve.name
            ],
            joined=True,
        )
        for curve in CURVES
        if curve.kind == kind
    ]
    return Scatter(KINDS[kind], [one for one in series if one.points], "votes", "accuracy")


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 56, 16, 40, 44
COLOURS = ("#2563eb", "#c2410c", "#15803d")


def svg(scatter: Scatter) -> str:
    """A chart of joined series as a picture, with a bar for each interval."""
    every = [point for one in scatter.series for point in one.points]
    most = max(point.x for point in every)
    low = math.floor(10 * min(point.low or point.y for point in every)) / 10
    high = math.ceil(10 * max(point.high or point.y for point in every)) / 10

    def across(x: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (x - 0.5) / most, 1)

    def down(y: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#334155">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for step in range(round((high - low) * 10) + 1):
        y = low + step / 10
        lines.append(
            f'<path d="M{LEFT} {down(y)}H{WIDTH - RIGHT}" stroke="#e2e8f0"/>'
            f'<text x="{LEFT - 8}" y="{down(y) + 4}" text-anchor="end">{y:.1f}</text>'
        )
    lines += [
        f'<text x="{across(x)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x}</text>'
        for x in range(1, round(most) + 1)
    ]
    lines.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(scatter.x)}</text>'
    )
    for index, one in enumerate(scatter.series):
        colour, shift = COLOURS[index], 5 * index
        places = [(across(point.x) + shift, down(point.y)) for point in one.points]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        lines.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), point in zip(places, one.points, strict=True):
            ends = (down(point.high or point.y), down(point.low or point.y))
            lines.append(
                f'<path d="M{x:.1f} {ends[0]}V{ends[1]}" stroke="{colour}" opacity="0.45"/>'
                f'<circle cx="{x:.1f}" cy="{y}" r="3" fill="{colour}"/>'
            )
        lines.append(
            f'<text x="{LEFT + 225 * index}" y="22" fill="{colour}">{escape(one.name)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def markdown(measured: Sequence[Point]) -> str:
    """The table of docs/judge-time.md: one vote, three, and all votes of each curve."""
    lines = ["| Curve | One vote | Three | All | Votes |", "|---|---|---|---|---|"]
    for curve in CURVES:
        by_votes = {point.k: point for point in measured if point.curve == curve.name}
        if not by_votes:
            continue
        last = max(by_votes)
        cells = [_cell(by_votes.get(votes)) for votes in (1, 3, last)]
        lines.append(f"| `{curve.name}` | {' | '.join(cells)} | {last} |")
    return "\n".join(lines) + "\n"


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    return f"{point.accuracy:.3f} [{point.low:.3f}, {point.high:.3f}]"


def main() -> None:
    """Measure the curves whose recordings are there, and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("curve", nargs="?", choices=[curve.name for curve in CURVES])
    parser.add_argument("--k", type=int, help="only the point with so many votes")
    parser.add_argument("--out", type=Path, default=DOCS, help="where the files are written")
    options = parser.parse_args()
    measured: list[Point] = []
    absent = 0
    for curve in CURVES:
        if options.curve not in (None, curve.name):
            continue
        try:
            measured += points(curve, options.recordings, options.k)
        except VerdictError as error:
            absent += 1
            sys.stderr.write(f"{curve.name} is left out: {error}\n")
    sys.stdout.write(markdown(measured) if options.k is None else as_csv(measured))
    if options.curve is None and options.k is None and not absent:
        (options.out / "images").mkdir(parents=True, exist_ok=True)
        (options.out / "curves.csv").write_text(as_csv(measured), encoding="utf-8")
        for kind in KINDS:
            picture = options.out / "images" / f"curves_{kind}.svg"
            picture.write_text(svg(chart(kind, measured)), encoding="utf-8")
    if not measured:
        sys.exit(2)


if __name__ == "__main__":
    main()
