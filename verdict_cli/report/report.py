"""The content of a run's report: facts, metrics, gates, and the run among published rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from verdict_cli.language.evaluations import Published
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.language.package_files import datasets
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.report.call_stats import TokenMass
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.gates import GateOutcome
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import Measures

OWN_SAMPLE = "not comparable: the published values are of the paper's data, this run's of a small sample that comes with verdict"


class ComparisonRow(Struct, frozen=True):
    """One row of a published table, or this run's own (`ours`) among them; `value` is a fraction, None if undefined.

    `own` marks the method that the published source itself proposes. `cost_usd` and `wall_s` are this run's, None of
    every other row.
    """

    judge: str
    value: float | None
    low: float | None = None
    high: float | None = None
    ours: bool = False
    own: bool = False
    cost_usd: float | None = None
    wall_s: float | None = None


class PublishedComparison(Struct, frozen=True):
    """An evaluation's metric among the rows of a published table, the best first; `caveat` says why they are not comparable.

    `unit` and `decimals` are those in which the table gives its values.
    """

    metric: str
    source: str
    place: str
    standings: tuple[ComparisonRow, ...]
    caveat: str = ""
    unit: Literal["percent", "fraction"] = "fraction"
    decimals: int = 3

    @property
    def others(self) -> list[ComparisonRow]:
        """The published rows."""
        return [row for row in self.standings if not row.ours]

    def shown(self, value: float | None) -> str:
        """A value in the table's unit and with its decimals; a dash where there is none."""
        if value is None:
            return "–"
        return (
            f"{100 * value:.{self.decimals}f}%"
            if self.unit == "percent"
            else f"{value:.{self.decimals}f}"
        )

    def shown_interval(self, row: ComparisonRow) -> str:
        """The row's interval in the same unit, empty where there is none."""
        return (
            ""
            if row.low is None or row.high is None
            else f"[{self.shown(row.low)}, {self.shown(row.high)}]"
        )


class EvaluationStudy(Protocol):
    """An evaluation whose result is not a list of metrics, such as a leaderboard. A feature measures it."""

    @property
    def kind(self) -> str:
        """The key of its evaluation, such as `arena`."""
        ...

    def summary_json(self) -> JsonObject:
        """What `verdict run --json` has of it."""
        ...

    def as_json(self) -> JsonObject:
        """What `report.json` has of it."""
        ...

    def conclusion(self) -> str:
        """One sentence, "" where there is nothing to conclude."""
        ...


class Report(Struct, frozen=True, rename={"measures": "evaluations", "comparisons": "published"}):
    """A run's facts, metrics and gates. `run` is the run's directory as given; `files` are in it.

    `flips` is the share of rows on which a judge called in both orders disagrees with itself, by node.
    `promises` is the `confidence` of each layer that stops early, by the pool that combines it, `kept` the share of audited rows on which it was kept. `masses` has each unit whose
    scores are token probabilities, `defaulted` the number of answers by default of each unit that has some. `studies` are the evaluations of
    a feature's own kind, such as leaderboards, by name. `inputs` is a digest of what the report was made from, "" where that may
    change unnoticed.
    """

    run: str
    facts: RunFacts
    measures: Mapping[str, Measures]
    gates: tuple[GateOutcome, ...]
    comparisons: Mapping[str, PublishedComparison]
    flips: Mapping[str, MetricValue] = {}
    promises: Mapping[str, float] = {}
    kept: Mapping[str, MetricValue] = {}
    masses: Mapping[str, TokenMass] = {}
    defaulted: Mapping[str, int] = {}
    files: tuple[str, ...] = ()
    inputs: str = ""
    level: float = CONFIDENCE_LEVEL
    studies: Mapping[str, EvaluationStudy] = {}

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)

    def primary_metric(self, name: str) -> tuple[str, MetricValue] | None:
        """The metric that represents the evaluation: the published one, else the first that is defined."""
        metrics = scalar_metrics(self.measures[name].values)
        defined = {metric: value for metric, value in metrics.items() if value.value is not None}
        comparison = self.comparisons.get(name)
        if comparison is not None and comparison.metric in defined:
            return comparison.metric, defined[comparison.metric]
        return next(iter(defined.items()), None)


def scalar_metrics(metrics: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    """The metrics that are one number, which a confusion matrix is not."""
    return {name: metric for name, metric in metrics.items() if name != "confusion"}


def build_report(
    run: str | Path,
    facts: RunFacts,
    measures: Mapping[str, Measures],
    gates: Sequence[GateOutcome] = (),
    *,
    published: Mapping[str, Published] | None = None,
    **more: Any,
) -> Report:
    """The report of a run; `published` is evaluation -> the table that its `published:` names, `more` are further fields."""
    comparisons = {
        name: _published_comparison(table, measures[name].values.get(table.metric), facts)
        for name, table in (published or {}).items()
        if name in measures
    }
    return Report(str(run), facts, measures, tuple(gates), comparisons, **more)


def _published_comparison(
    table: Published, metric: MetricValue | None, facts: RunFacts
) -> PublishedComparison:
    scale = 100 if table.unit == "percent" else 1
    rows = [ComparisonRow(row.judge, row.value / scale, own=row.own) for row in table.rows]
    value, low, high = (
        (None, None, None) if metric is None else (metric.value, metric.low, metric.high)
    )
    ours = ComparisonRow(
        facts.name, value, low, high, ours=True, cost_usd=facts.cost_usd, wall_s=facts.wall_s
    )
    rows.append(ours)
    definition = find_metric(table.metric)
    better = 1 if definition is not None and definition.lower_is_better else -1
    rows.sort(key=lambda row: (row.value is None, better * (row.value or 0.0)))
    location = f"table {table.table}" if isinstance(table.table, int) else table.table
    if table.page is not None:
        location += f", page {table.page}" if isinstance(table.page, int) else f", {table.page}"
    caveats = _other_data(table, facts)
    caveats += [table.caveat] if table.caveat else []
    decimals = max(_decimals(row.value) for row in table.rows)
    return PublishedComparison(
        table.metric, table.source, location, tuple(rows), ". ".join(caveats), table.unit, decimals
    )


def _other_data(table: Published, facts: RunFacts) -> list[str]:
    """That the run's data are not those of the table; empty where the number of rows is the table's."""
    if Path(facts.dataset).stem in datasets():
        return [OWN_SAMPLE]
    if facts.rows == table.data_rows:
        return []
    published = "other data" if table.data_rows is None else plural(table.data_rows, "row")
    return [f"not comparable: your data ({plural(facts.rows, 'row')}) beside values of {published}"]


def _decimals(value: float) -> int:
    """The digits after the decimal point with which a value is written."""
    return -min(0, int(Decimal(repr(value)).as_tuple().exponent))


def summary_json(report: Report) -> JsonObject:
    """The document that `verdict run --json` prints (language.md, section 12)."""
    facts = report.facts
    stages = {
        node: [to_builtins(stage) for stage in stages] for node, stages in facts.stages.items()
    }
    return {
        "run": report.run,
        "status": facts.status,
        "rows": facts.rows,
        "failed": facts.failed,
        "calls": facts.calls,
        **({"abstained": facts.abstained, "stages": stages} if stages else {}),
        "cost_usd": facts.cost_usd,
        **({"warnings": list(facts.warnings)} if facts.warnings else {}),
        **({"saved": dict(facts.saved)} if report.promises else {}),
        **({"defaulted": dict(report.defaulted)} if report.defaulted else {}),
        "evaluations": {
            evaluation: {name: metric_json(metric) for name, metric in measures.values.items()}
            for evaluation, measures in report.measures.items()
        }
        | {name: study.summary_json() for name, study in report.studies.items()},
        "gates": [
            {
                key: getattr(gate, key)
                for key in ("metric", "passed", "value", "limit", "verdict", "reason")
            }
            for gate in report.gates
        ],
    }


def metric_json(metric: MetricValue) -> JsonObject:
    """A metric as the short documents have it."""
    return {"value": metric.value, "low": metric.low, "high": metric.high, "n": metric.n}


def optional_json(metric: MetricValue | None) -> JsonObject | None:
    """As `metric_json`; None for a metric that there is not."""
    return None if metric is None else metric_json(metric)


def full_json(report: Report) -> JsonObject:
    """The content of `report.json`: everything that the report holds."""
    content = to_builtins(replace(report, studies={}))
    del content["studies"]
    evaluations = {
        # report.json keeps its published key for the metrics
        name: {"figures": measures.pop("values"), **measures}
        for name, measures in content["evaluations"].items()
    }
    studies = {name: {"figures": {}, **study.as_json()} for name, study in report.studies.items()}
    for gate, outcome in zip(content["gates"], report.gates, strict=True):
        gate["passed"] = outcome.passed
    return {
        "run": report.run,
        "passed": report.passed,
        "level": report.level,
        **content,
        "facts": _facts_json(report.facts),
        "evaluations": {**evaluations, **studies},
    }


def _facts_json(facts: RunFacts) -> JsonObject:
    # The digests stay in run.json: they are those of this report's own files.
    return {
        **{key: value for key, value in facts.as_json().items() if key != "digests"},
        "floors": list(facts.floors),
    }
