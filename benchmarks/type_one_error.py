"""How often decisions are wrong where they should not be: `python benchmarks/type_one_error.py [SIMULATIONS [PART…]]`.

- `compare`: equal judges; the share of comparisons in which a metric's p-value is at most 0.05, by metric.
- `losses`: equal mean errors, where one run gains a little on most rows and loses much on the others; the share of
  comparisons that find a difference without a doubt. Where no row shows a loss, there is one.
- `repeats`: two equal pipelines of repeated runs, whose runs vary as a whole or not; the share of p-values of at most
  0.05, of intervals that contain the difference, and of new pairs of runs within the noise floor.
- `gates`: judges exactly at the limit, or exactly `max_drop` worse; the share of gates that pass. In its worst case a
  missing row is wrong.
- `missing`: the same against a baseline, some rows without a verdict. Each of them is wrong in its worst case.
- `sweep`: equal variants; the share of sweeps in which any differs from the first.
- `rank`: equal candidates; the share of rankings in which any two differ.
- `audit`: a judge that answers by chance; the share of audits with a significant probe, and the same of a judge that
  likes length.
- `plan`: the power of the adjusted p-value that `compare` prints, at the number of rows that `verdict plan` gives for 0.80.

Seeds are the numbers of the simulations. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import lru_cache

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from verdict_cli.features.audit.effects import Control, Effect, attack_success, probe_p, with_family
from verdict_cli.features.power.sample_size import (
    TESTS_OF_MORE_LABELS,
    TESTS_OF_TWO_LABELS,
    PilotChange,
    rows_for_difference,
)
from verdict_cli.features.rank.ranks import significantly_better
from verdict_cli.features.rank.strengths import Choice, choice_strengths
from verdict_cli.features.rank.tournament import _is_better, _pooled
from verdict_cli.stats.columns.column import MISSING, NUMERIC, Column, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import (
    CONFIDENCE_LEVEL,
    Draw,
    metrics_with_intervals,
    paired_metric_value,
)
from verdict_cli.stats.metrics import confusion
from verdict_cli.stats.paired import (
    PairedRows,
    RunRows,
    compare_with_reference,
    pair,
    paired_difference,
)
from verdict_cli.stats.permutation import holm_adjusted, sign_flip_test, swap_tests
from verdict_cli.stats.worst_case import open_pairs

Lines = Iterator[tuple[str, ...]]
OF_LABELS = ("accuracy", "balanced_accuracy", "f1", "mcc", "cohen_kappa", "krippendorff_alpha")
OF_NUMBERS = ("mae", "rmse", "pearson", "spearman", "weighted_kappa")


def _numbers(values: Floats) -> Column:
    codes = np.where(np.isnan(values), MISSING, NUMERIC).astype(np.int32)
    return Column(values, codes, (), frozenset({"float"}))


def _run(target: Floats, said: Floats, cluster: Ints | None, *, numeric: bool) -> EvaluationData:
    none = _numbers(np.full(len(target), np.nan))
    codes = [
        np.where(np.isnan(each), MISSING, np.nan_to_num(each)).astype(np.int64)
        for each in (target, said)
    ]
    columns = (_numbers(target), _numbers(said)) if numeric else (none, none)
    labels = tuple(range(5)) if numeric else ("a", "b", "c")
    kind = "numeric" if numeric else "classification"
    return EvaluationData(
        kind,
        labels,
        *codes,
        *columns,
        none,
        none,
        none,
        none,
        (),
        (),
        None if numeric else 0,
        False,
        cluster,
    )


def compare(simulations: int) -> Lines:
    """The share of comparisons of equal judges with a p-value of at most 0.05."""
    designs = ((40, 0, 0.0), (200, 0, 0.1), (200, 20, 0.05), (200, 40, 0.0))
    for metrics, numeric in ((OF_LABELS, False), (OF_NUMBERS, True)):
        for rows, clusters, missing in designs:
            low = dict.fromkeys(metrics, 0)
            for seed in range(simulations):
                rng = np.random.default_rng([seed, rows, clusters])
                data = _equal_judges(rng, rows, clusters, missing, numeric=numeric)
                known = np.flatnonzero(
                    (data[0].prediction != MISSING) & (data[1].prediction != MISSING)
                )
                for metric in metrics:
                    tests = swap_tests((metric,), data, (known, known), rng, 199)
                    low[metric] += metric in tests and tests[metric][0] <= 0.05
            design = (
                f"{rows} rows"
                + (f" in {clusters} clusters" if clusters else "")
                + f", {missing:.0%} missing"
            )
            for metric in metrics:
                yield design, f"`{metric}`", f"{low[metric] / simulations:.1%}"


def _equal_judges(
    rng: np.random.Generator, rows: int, clusters: int, missing: float, *, numeric: bool
) -> tuple[EvaluationData, EvaluationData]:
    cluster = rng.integers(0, clusters, rows) if clusters else None
    common = (
        rng.normal(size=(3, clusters))[:, cluster] if cluster is not None else np.zeros((3, rows))
    )
    target = np.clip(np.round(2 + rng.normal(size=rows) + 0.5 * common[0]), 0, 4)
    if not numeric:
        target = np.searchsorted([0.1, 0.4], rng.random(rows)).astype(float)
    runs = []
    for judge in (1, 2):
        noise = 0.8 * rng.normal(size=rows) + 0.6 * common[judge]
        said = (
            target + np.round(noise)
            if numeric
            else np.where(noise < 0.9, target, rng.integers(0, 3, rows))
        )
        said = np.clip(said, 0, 4)
        said[rng.random(rows) < missing] = np.nan
        runs.append(_run(target, said, cluster, numeric=numeric))
    return runs[0], runs[1]


def _repeated(right: npt.NDArray[np.bool_]) -> RunRows:
    target = np.arange(len(right)) % 2 * 1.0
    data = _run(target, np.where(right, target, 1 - target), None, numeric=False)
    return data, (), [str(row) for row in range(len(right))]


def losses(simulations: int) -> Lines:
    """The share of comparisons of equal mean errors that find a difference."""
    for rows, clusters in ((20, 0), (30, 0), (60, 0), (200, 0), (200, 10), (200, 40)):
        for share in (0.02, 0.05, 0.1, 0.2):
            found = sum(_finds_losses(seed, rows, clusters, share) for seed in range(simulations))
            where = f" in {clusters} clusters" if clusters else ""
            yield f"{rows} rows{where}, {share:.0%} lose 1", f"{found / simulations:.1%}"


def _finds_losses(seed: int, rows: int, clusters: int, share: float) -> bool:
    """Whether there is a difference; half of a cluster's rows lose or gain together."""
    rng = np.random.default_rng([seed, rows])
    first = rng.choice([1.0, 2.0], rows)
    place, cluster = rng.random(rows), None
    if clusters:
        cluster = np.arange(rows) % clusters
        place = np.where(rng.random(rows) < 0.5, rng.random(clusters)[cluster], place)
    change = np.where(place < share, 1.0, -share / (1 - share))
    runs = tuple(
        (_run(np.zeros(rows), said, cluster, numeric=True), (), [*map(str, range(rows))])
        for said in (first, first + change)
    )
    pairs = pair(*runs)
    assert isinstance(pairs, PairedRows)
    difference = paired_difference("mae", pairs, Draw(rng), 499)
    return (difference.p or 0.0) <= 0.05 and not difference.doubt


def repeats(simulations: int) -> Lines:
    """How often repeated runs of equal pipelines differ, and how well their intervals and the noise floor hold."""
    for rows in (20, 200):
        for counts in ((2, 2), (3, 3), (5, 1), (5, 5)):
            for between in (0.0, 0.15, 0.3, 0.6):
                found, chances = np.zeros(3), []
                for seed in range(simulations):
                    rng = np.random.default_rng([seed, rows, *counts])
                    hard = rng.normal(1.2, 1.5, rows)
                    drawn = []
                    for _ in range(sum(counts) + 2):
                        chance = 1 / (1 + np.exp(-hard - rng.normal(0, between)))
                        drawn.append(_repeated(rng.random(rows) < chance))
                        chances.append(
                            float(chance.mean()) - float((1 / (1 + np.exp(-hard))).mean())
                        )
                    first, second, new = drawn[: counts[0]], drawn[counts[0] : -2], drawn[-2:]
                    both = pair(*first, *second)
                    assert not isinstance(both, str)
                    against = compare_with_reference(["accuracy"], both, counts, 0.95, [seed], 199)[
                        "accuracy"
                    ]
                    difference, spread = against.differences[0], against.spread
                    assert spread is not None
                    low, high = difference.change.low or 0.0, difference.change.high or 0.0
                    apart = np.ptp(
                        [float((run[0].target == run[0].prediction).mean()) for run in new]
                    )
                    found += (
                        (difference.p or 0.0) <= 0.05,
                        low <= 0 <= high,
                        apart <= spread.noise_floor(0.95),
                    )
                shares = (f"{100 * share / simulations:.1f}%" for share in found)
                yield f"{rows}", f"{counts[0]} and {counts[1]}", f"{np.std(chances):.3f}", *shares


def gates(simulations: int) -> Lines:
    """The share of gates that pass although the limit is not met."""
    for rows, limit, missing, clusters in (
        (50, 0.9, 0.0, 0),
        (300, 0.9, 0.0, 0),
        (300, 0.9, 0.05, 0),
        (1000, 0.9, 0.1, 0),
        (300, 0.8, 0.0, 20),
        (300, 0.8, 0.05, 50),
    ):
        passed = sum(_gate(seed, rows, limit, missing, clusters) for seed in range(simulations))
        design = f"{rows} rows" + (f" in {clusters} clusters" if clusters else "")
        yield f"`min: {limit:g}`, {design}, {missing:.0%} missing", f"{passed / simulations:.1%}"
    for rows, differ in ((50, 0.03), (100, 0.03), (300, 0.03), (300, 0.2), (1000, 0.1)):
        passed = sum(_drop(seed, rows, differ) for seed in range(simulations))
        yield f"`max_drop: 0.02`, {rows} rows, {differ:.0%} differ", f"{passed / simulations:.1%}"


def _gate(seed: int, rows: int, limit: float, missing: float, clusters: int) -> bool:
    """Whether `min` passes where the share of right rows, the missing ones counted as wrong, is the limit."""
    rng = np.random.default_rng([seed, rows, clusters])
    lost = rng.random(rows) < missing
    cluster = None
    chance = np.full(rows, limit / (1 - missing))
    if clusters:
        cluster = np.concatenate([np.arange(clusters), rng.integers(0, clusters, rows - clusters)])
        share = limit / (1 - missing)
        chance = rng.beta(share * 4, (1 - share) * 4, clusters)[cluster]
    right = rng.random(rows) < chance
    kept = np.flatnonzero(~lost)
    target, said = np.zeros(rows, np.int64), np.where(right, 0, 1)
    found = _accuracy(target[kept], said[kept], None if cluster is None else cluster[kept], rng)
    strict = _accuracy(target, np.where(lost, 1, said), cluster, rng)
    return (
        not (found.warnings or strict.warnings)
        and min(strict.low or 0.0, found.low or 0.0) >= limit
    )


def _accuracy(target: Ints, said: Ints, cluster: Ints | None, rng: np.random.Generator):
    sample = Sample.of((target, said), cluster)
    at = sample.first
    given = confusion.label_statistics(target[at], said[at], 2, None, False)
    return metrics_with_intervals(
        {"accuracy": given["accuracy"]}, sample, Draw(rng, continuity=True)
    )["accuracy"]


def _drop(seed: int, rows: int, differ: float) -> bool:
    """Whether `max_drop: 0.02` passes where the second judge is exactly 0.02 worse."""
    rng = np.random.default_rng([seed, rows])
    kind = rng.choice(3, rows, p=[1 - differ, differ / 2 + 0.01, differ / 2 - 0.01])
    right = rng.random(rows) < 0.85
    first = np.where(kind == 1, True, np.where(kind == 2, False, right))
    second = np.where(kind == 1, False, np.where(kind == 2, True, right))
    columns = np.zeros(rows, np.int64), np.where(first, 0, 1), np.where(second, 0, 1)
    sample = Sample.of(columns)
    at = [column[sample.first] for column in columns]
    both = [confusion.label_statistics(at[0], said, 2, None, False)["accuracy"] for said in at[1:]]
    change = paired_metric_value(both[0], both[1], sample, Draw(rng, continuity=True))
    return not change.warnings and change.low is not None and change.low >= -0.02


MAX_DROP, RIGHT, DIFFER = 0.05, 0.85, 0.12


def missing(simulations: int) -> Lines:
    """The share of baseline gates that pass where the drop is exactly `max_drop`, each row without a verdict counted as wrong."""
    for rows, lost in ((200, 0.0), (200, 0.05), (300, 0.05), (1000, 0.03), (1000, 0.05)):
        passed = 0
        for seed in range(simulations):
            rng = np.random.default_rng([seed, rows])
            # A lost row that the baseline has right is a drop of its own.
            net = (MAX_DROP - lost * ((1 - DIFFER) * RIGHT + DIFFER / 2)) / (1 - lost / 2)
            kind = rng.choice(3, rows, p=[1 - DIFFER, (DIFFER + net) / 2, (DIFFER - net) / 2])
            same, gone = rng.random(rows) < RIGHT, rng.random(rows) < lost
            sides = []
            for worse in (2, 1):
                right = np.where(kind == 0, same, kind != worse)
                said = np.where(right, 0.0, 1.0)
                sides.append(
                    _run(
                        np.zeros(rows),
                        np.where(gone & (worse == 1), np.nan, said),
                        None,
                        numeric=False,
                    )
                )
            keys = [str(row) for row in range(rows)]
            passed += _holds((sides[0], (), keys), (sides[1], (), keys), rng)
        yield (
            f"`max_drop: {MAX_DROP:g}`, {rows} rows, {lost:.0%} without a verdict",
            f"{passed / simulations:.1%}",
        )
    for metric, rows, clusters in (
        ("accuracy", 200, 20),
        ("accuracy", 400, 40),
        ("cohen_kappa", 200, 0),
        ("cohen_kappa", 400, 40),
        ("mae", 200, 0),
        ("mae", 400, 40),
    ):
        drop = _true_drop(metric)
        passed = 0
        for seed in range(simulations):
            rng = np.random.default_rng([seed, rows, clusters])
            sides = _worse_judge(rng, rows, clusters, metric)
            keys = [str(row) for row in range(rows)]
            passed += _holds((sides[0], (), keys), (sides[1], (), keys), rng, metric, drop)
        where = f" in {clusters} clusters" if clusters else ""
        yield f"`{metric}` by {drop:.3f}, {rows} rows{where}", f"{passed / simulations:.1%}"


def _worse_judge(
    rng: np.random.Generator, rows: int, clusters: int, metric: str
) -> tuple[EvaluationData, EvaluationData]:
    """A judge and a worse one, whose errors go with the clusters and with each other."""
    size = clusters or rows
    cluster = np.concatenate([np.arange(size), rng.integers(0, size, rows - size)])
    numeric = metric == "mae"
    target = (
        rng.integers(0, 5, rows) * 1.0
        if numeric
        else np.searchsorted([0.2, 0.5], rng.random(rows)) * 1.0
    )
    common = rng.normal(size=size)[cluster] * 0.6 + rng.normal(size=rows) * 0.5
    sides = []
    for threshold in (1.2, 0.9):
        noise = common + rng.normal(size=rows) * 0.62
        wrong = (target + rng.integers(1, 3, rows)) % 3
        said = (
            np.clip(target + np.round(noise * (2 - threshold)), 0, 4)
            if numeric
            else np.where(noise < threshold, target, wrong)
        )
        sides.append(_run(target, said, cluster if clusters else None, numeric=numeric))
    return sides[0], sides[1]


@lru_cache
def _true_drop(metric: str) -> float:
    """How much worse the second judge is: over two million rows."""
    values = []
    for side in _worse_judge(np.random.default_rng(1), 2_000_000, 0, metric):
        if metric == "mae":
            values.append(-float(np.abs(side.targets.numbers - side.predictions.numbers).mean()))
            continue
        agree = float((side.target == side.prediction).mean())
        chance = float(
            np.bincount(side.target)
            / len(side.target)
            @ (np.bincount(side.prediction, minlength=3) / len(side.target))
        )
        values.append(agree if metric == "accuracy" else (agree - chance) / (1 - chance))
    return values[0] - values[1]


def _holds(
    baseline: RunRows,
    run: RunRows,
    rng: np.random.Generator,
    metric: str = "accuracy",
    limit: float = MAX_DROP,
) -> bool:
    pairs = pair(baseline, run)
    assert not isinstance(pairs, str)

    def change_of(pairs: PairedRows) -> MetricValue:
        return paired_difference(metric, pairs, Draw(rng, continuity=True)).change

    change, left_out = change_of(pairs), open_pairs(metric, pairs, change_of, alone=False)
    ends = [change, *([] if left_out is None or left_out.worst is None else [left_out.worst])]
    worst = [each.low if metric != "mae" or each.high is None else -each.high for each in ends]
    return all(
        not each.warnings and end is not None and end >= -limit
        for each, end in zip(ends, worst, strict=True)
    )


def sweep(simulations: int) -> Lines:
    """The share of sweeps of equal variants in which any is said to differ from the first."""
    for variants, rows in ((3, 50), (5, 100), (5, 400), (8, 100)):
        wrong = covered = 0
        for seed in range(simulations):
            rng = np.random.default_rng([seed, variants, rows])
            chance = 1 / (1 + np.exp(-rng.normal(1.2, 1.5, rows)))
            pairs = pair(*(_repeated(rng.random(rows) < chance) for _ in range(variants)))
            assert not isinstance(pairs, str)
            found = compare_with_reference(["accuracy"], pairs, [1] * variants, 0.95, [seed], 199)[
                "accuracy"
            ]
            adjusted = holm_adjusted([each.p for each in found.differences])
            wrong += min(p if p is not None else 1.0 for p in adjusted) <= 0.05
            covered += all(
                (each.change.low or 0.0) <= 0 <= (each.change.high or 0.0)
                for each in found.differences
            )
        shares = f"{wrong / simulations:.1%}", f"{covered / simulations:.1%}"
        yield f"{variants} equal variants, {rows} rows", *shares


def rank(simulations: int) -> Lines:
    """The share of rankings of equal candidates in which any two differ."""
    for candidates, samples in ((5, 5), (10, 5), (20, 5), (10, 20)):
        separated = 0
        for seed in range(simulations):
            scores = (
                np.random.default_rng([seed, candidates, samples])
                .integers(1, 6, (candidates, samples))
                .tolist()
            )
            pooled = _pooled(scores)
            best, worst = max(scores, key=np.mean), min(scores, key=np.mean)
            separated += _is_better(best, worst, pooled)
        yield (
            f"{candidates} candidates, {samples} samples of 1 to 5",
            f"{separated / simulations:.1%}",
        )
    for candidates in (6, 12):
        separated = 0
        for seed in range(simulations):
            rng = np.random.default_rng([seed, candidates])
            pairs = [(i, j) for i in range(candidates) for j in range(i)]
            found = choice_strengths(
                candidates,
                [Choice(pair[int(rng.integers(2))], pair) for pair in pairs for _ in "ab"],
            )
            order = found.values.argsort()
            better = significantly_better(found, candidates)
            separated += better[order[-1], order[0]]
        yield f"{candidates} candidates, every pair judged twice", f"{separated / simulations:.1%}"


def audit(simulations: int) -> Lines:
    """The share of audits with a significant probe: three probes and three attacks, two repeats."""
    for rows, liked in ((60, 0.0), (100, 1.0)):
        significant = 0
        for seed in range(simulations):
            rng = np.random.default_rng([seed, rows])

            def ask(rng: np.random.Generator = rng, rows: int = rows) -> list[int]:
                return rng.integers(1, 6, rows).tolist()

            control = Control(ask(), [ask(), ask()], seed=seed)
            attack = Effect("attack", "attack", rows)
            longer = [min(5.0, score + liked) for score in ask()]
            probes = [longer, ask(), ask()]
            ps = [probe_p(control, after, 5) for after in probes]
            if liked:
                significant += (ps[0] or 1.0) * 6 <= 0.05
                continue
            ps += [attack_success(attack, control, ask(), 5).p for _ in range(3)]
            family = with_family([Effect("probe", "length", rows, p=p) for p in ps])
            significant += min(effect.p_holm or 1.0 for effect in family) <= 0.05
        judge = "adds 1 to every longer text" if liked else "answers by chance"
        yield f"{rows} rows, a judge that {judge}", f"{significant / simulations:.1%}"


def plan(simulations: int) -> Lines:
    """The power of what `compare` prints of accuracy, adjusted for the default metrics of its evaluation, at the planned rows."""
    for labels, shares in (
        ("2 equal labels", (0.5, 0.5)),
        ("2 labels of 20 and 80%", (0.2, 0.8)),
        ("3 labels of 10, 30 and 60%", (0.1, 0.3, 0.6)),
        ("5 labels of 5 to 50%", (0.05, 0.1, 0.15, 0.2, 0.5)),
    ):
        level = 1 - (1 - CONFIDENCE_LEVEL) / (
            TESTS_OF_TWO_LABELS if len(shares) == 2 else TESTS_OF_MORE_LABELS
        )
        for effect, apart in (
            (0.05, 0.1),
            (0.05, 0.3),
            (0.1, 0.2),
            (0.1, 0.4),
            (0.2, 0.3),
            (0.3, 0.3),
        ):
            rows = rows_for_difference(effect, apart, level, 0.8)
            significant = sum(
                _planned(seed, rows, effect, apart, shares) for seed in range(simulations)
            )
            design = (
                f"a difference of {effect:g}, {apart:.0%} of rows differ, {labels}: {rows} rows"
            )
            yield design, f"{significant / simulations:.1%}"
    for rows in (50, 100, 200):
        for apart in (0.03, 0.1, 0.2):
            significant = sum(_after_pilots(seed, rows, 0.05, apart) for seed in range(simulations))
            design = f"a difference of 0.05 after two equal pilots of {rows} rows, of which {apart:.0%} differ"
            yield design, f"{significant / simulations:.1%}"


def _after_pilots(seed: int, pilots: int, effect: float, apart: float) -> bool:
    """Whether McNemar's test finds the difference on as many rows as two equal pilots say are needed."""
    rng = np.random.default_rng([seed, pilots, int(1000 * apart)])
    kind = rng.choice(3, pilots, p=[1 - apart, apart / 2, apart / 2])
    gains = np.where(kind == 1, 1.0, np.where(kind == 2, -1.0, 0.0))
    lower = abs(float(gains.mean())) - 1.96 * float(gains.std(ddof=1)) / pilots**0.5
    seen = PilotChange(
        pilots, float(gains.std(ddof=1)), 1.0, int((kind > 0).sum()), max(lower, 0.0)
    )
    rows = _rows_after(seen, effect)
    better, worse = rng.multinomial(rows, [apart / 2 + effect, apart / 2, 1 - apart - effect])[:2]
    return sign_flip_test(np.repeat([1.0, -1.0], [better, worse]), None, rng) <= 0.05


@lru_cache(None)
def _rows_after(pilots: PilotChange, effect: float) -> int:
    """The planned rows. Few pilots differ in what they count, and a plan takes half a second."""
    return pilots.rows_for(effect, CONFIDENCE_LEVEL, 0.8)


def _planned(seed: int, rows: int, effect: float, apart: float, shares: tuple[float, ...]) -> bool:
    """Whether the adjusted p-value of accuracy is at most 0.05."""
    rng = np.random.default_rng([seed, rows, len(shares)])
    kind = rng.choice(3, rows, p=[1 - apart, (apart + effect) / 2, (apart - effect) / 2])
    target = rng.choice(len(shares), rows, p=shares) * 1.0
    same, where = rng.random(rows) < 0.9, np.arange(rows)
    other = (target + rng.integers(1, len(shares), rows)) % len(shares)
    sides = [np.where(np.where(kind == 0, same, kind != wrong), target, other) for wrong in (1, 2)]
    runs = tuple(
        replace(_run(target, said, None, numeric=False), labels=tuple("abcde"[: len(shares)]))
        for said in sides
    )
    return swap_tests(DEFAULT_METRICS, runs, (where, where), rng, 999)["accuracy"][1] <= 0.05


DEFAULT_METRICS = ("accuracy", "balanced_accuracy", "f1", "cohen_kappa")


PARTS = {
    "compare": compare,
    "losses": losses,
    "repeats": repeats,
    "gates": gates,
    "missing": missing,
    "sweep": sweep,
    "rank": rank,
    "audit": audit,
    "plan": plan,
}
HEADS = {"compare": ("Design", "Metric", "p ≤ 0.05"), "plan": ("Design", "Power")}
HEADS |= {"sweep": ("Design", "Any differs", "All intervals hold")}
HEADS["repeats"] = (
    "Rows",
    "Runs",
    "SD between runs",
    "p ≤ 0.05",
    "Interval holds",
    "Noise floor holds",
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("simulations", nargs="?", type=int, default=1000)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - PARTS.keys():
        parser.error(f"unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    for name in chosen.parts or PARTS:
        heads = HEADS.get(name, ("Design", "Wrong" if name != "audit" else "Significant"))
        print(f"\n| {name}: {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
        for line in PARTS[name](chosen.simulations):
            print(f"| {' | '.join(line)} |", flush=True)
