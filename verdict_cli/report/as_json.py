"""The report as JSON: the short document of `--json`, and all of it for `report.json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from verdict_cli.messages import RunFacts
from verdict_cli.report.report import Report
from verdict_cli.stats.measure import Measures


def summary_json(report: Report) -> dict[str, Any]:
    """The document that `verdict run --json` prints (language.md, section 12)."""
    facts = report.facts
    return {
        "run": report.run,
        "status": facts.status,
        "rows": facts.rows,
        "failed": facts.failed,
        "calls": facts.calls,
        **({"abstained": facts.abstained, "stages": _stages(facts)} if facts.stages else {}),
        "cost_usd": facts.cost_usd,
        **({"saved": dict(facts.saved)} if report.promises else {}),
        "evaluations": {
            name: {
                metric: {"value": figure.value, "low": figure.low, "high": figure.high, "n": figure.n}
                for metric, figure in measures.values.items()
            }
            for name, measures in report.measures.items()
        },
        "gates": [
            {
                "metric": gate.metric,
                "passed": gate.passed,
                "value": gate.value,
                "limit": gate.limit,
                "verdict": gate.verdict,
                "reason": gate.reason,
            }
            for gate in report.gates
        ],
    }


def _stages(facts: RunFacts) -> dict[str, Any]:
    return {node: [asdict(stage) for stage in stages] for node, stages in facts.stages.items()}


def full_json(report: Report) -> dict[str, Any]:
    """Everything that the report holds: the content of `report.json`."""
    return {
        "run": report.run,
        "passed": report.passed,
        "facts": {**asdict(report.facts), "floors": list(report.facts.floors)},
        "evaluations": {name: _evaluation(measures) for name, measures in report.measures.items()},
        "gates": [{**asdict(gate), "passed": gate.passed} for gate in report.gates],
        "published": {
            name: {**asdict(comparison), "standings": [asdict(row) for row in comparison.standings]}
            for name, comparison in report.comparisons.items()
        },
        "flips": {node: asdict(figure) for node, figure in report.flips.items()},
        "promises": dict(report.promises),
        "files": list(report.files),
    }


def _evaluation(measures: Measures) -> dict[str, Any]:
    keys = asdict(measures)
    figures = keys.pop("values")  # the key's name in report.json
    return {"figures": figures, **keys, "warnings": list(measures.warnings), "bounds": _lists(measures.bounds)}


def _lists(bounds: Any) -> dict[str, list[float]]:
    return {metric: list(ends) for metric, ends in bounds.items()}
