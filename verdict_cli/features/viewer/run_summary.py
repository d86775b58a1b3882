"""What the report of a run says: its main metrics, gates and slices, and a conclusion in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.language.metric_registry import find_metric
from verdict_cli.report import formatting
from verdict_cli.report.run_document import SECOND_METRICS
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL

_MOST_BYTES = 20_000_000
_INVALID = (LookupError, TypeError, ValueError, AttributeError)
"""Raised by a report.json that verdict did not write."""


class RunSummaries:
    """The summaries of many runs. A `report.json` is read again only when it changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    def get(self, folder: Path) -> dict[str, Any]:
        """The summary of the run in this folder; an empty one without a report that can be read."""
        path = folder / "report.json"
        try:
            stat = path.stat()
        except OSError:
            return run_summary({})
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = (stamp, run_summary(_report(path, stat.st_size)))
        return known[1]


def run_summary(report: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a `report.json`.

    `main` is the first metric of the first evaluation (of a leaderboard, that of its first system), `second` one that
    is corrected for chance, `gates` are their outcomes, `evaluations` have all metrics and the main one by slice.
    """
    try:
        found = _mapping(report.get("evaluations"))
        boards = [board for name, each in found.items() if (board := _leaderboard(name, each)) is not None]
        evaluations = [
            _evaluation(name, each, _mapping(_mapping(report.get("published")).get(name)))
            for name, each in found.items()
            if _mapping(each).get("figures")
        ]
        summary = {
            "main": next((each["main"] for each in evaluations if each["main"]), _of_leaderboards(boards)),
            "second": next((each["second"] for each in evaluations if each["main"]), None),
            "coverage": next((each["coverage"] for each in evaluations if each["main"]), None),
            "gates": [_gate(gate) for gate in report.get("gates") or ()],
            "evaluations": evaluations,
            "leaderboards": boards,
            "level": _number(report.get("level", CONFIDENCE_LEVEL)),
        }
        return summary | {"conclusion": summary_conclusion(summary, _mapping(report.get("facts")))}
    except _INVALID:
        return run_summary({})


def summary_conclusion(summary: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The main metric with its interval, the gates, and the rows that disagree with their labels, as one line."""
    parts = []
    main = summary["main"]
    if main is not None:
        evaluations = summary["evaluations"]
        prefix = f"{main['evaluation']}: " if len(evaluations) > 1 else ""
        value = f"{formatting.format_number(main['value'])} {formatting.interval(main['low'], main['high'])}".strip()
        parts.append(f"{prefix}{main['metric'].replace('_', ' ')} {value} on {main['n']:,} {main['of']}")
    gates = summary["gates"]
    missed = [gate for gate in gates if not gate["passed"]]
    if missed:
        named = ", ".join(
            f"{gate['metric']} {formatting.format_number(gate['value'])} ({gate['rule']})" for gate in missed[:2]
        )
        more = f" and {len(missed) - 2} more" if len(missed) > 2 else ""
        verb = "failed" if all(gate["verdict"] == "failed" for gate in missed) else "not passed"
        parts.append(f"{len(missed)} of {len(gates)} gates {verb}: {named}{more}")
    elif gates:
        parts.append("the gate passed" if len(gates) == 1 else f"all {len(gates)} gates passed")
    if main is not None and main["wrong"] is not None:
        wrong = main["wrong"]
        parts.append(f"{wrong:,} {main['of'] if wrong != 1 else main['of'][:-1]} {_disagree(wrong)} with the labels")
    if failed := facts.get("failed"):
        parts.append(f"{failed:,} failed {'row' if failed == 1 else 'rows'}")
    text = formatting.visible_text("; ".join(parts), 400)
    return text if main is not None and len(summary["evaluations"]) > 1 else text[:1].upper() + text[1:]


def _disagree(count: int) -> str:
    return "disagrees" if count == 1 else "disagree"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _report(path: Path, size: int) -> Mapping[str, Any]:
    try:
        return _mapping(orjson.loads(path.read_bytes())) if size <= _MOST_BYTES else {}
    except (OSError, ValueError):
        return {}


def _evaluation(name: str, found: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, Any]:
    """One evaluation: its metrics, the main one with its slices, and one corrected for chance."""
    figures = found["figures"]
    metrics = [_metric(metric, value) for metric, value in figures.items() if metric != "confusion"]
    known = [each for each in metrics if each["value"] is not None]
    first = next((each for each in known if each["metric"] == published.get("metric")), known[0] if known else None)
    second = next((each for metric in SECOND_METRICS for each in known if each["metric"] == metric), None)
    of = str(found.get("of") or "rows")
    main = first and {"evaluation": name, **first, "of": of, "wrong": _wrong(figures)}
    return {
        "name": name,
        "kind": str(found.get("kind") or ""),
        "metrics": metrics,
        "main": main,
        "second": None if second is None or second == first else {"evaluation": name, **second},
        "coverage": _number(found.get("coverage")),
        "warnings": [str(warning) for warning in found.get("warnings") or ()],
        "slices": [] if first is None else list(_slices(first["metric"], _mapping(found.get("groups")))),
    }


def _metric(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    ends = {key: _number(found.get(key)) for key in ("value", "low", "high")}
    return {"metric": name, **ends, "n": int(found.get("n") or 0), "reason": str(found.get("reason") or "")}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _wrong(figures: Mapping[str, Any]) -> int | None:
    """How many rows have another prediction than their target; None where that is not what the metrics are of."""
    matrix = _mapping(_mapping(figures.get("confusion")).get("value"))
    if matrix:
        return sum(int(sum(row)) - int(row[index]) for index, row in enumerate(matrix["counts"]))
    accuracy = _mapping(figures.get("accuracy"))
    return None if accuracy.get("value") is None else round((1 - float(accuracy["value"])) * int(accuracy["n"]))


def _slices(metric: str, groups: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The metric for each value of each expression, the worst value first."""
    record = find_metric(metric)
    sign = -1 if record is not None and record.lower_is_better else 1
    for expression, values in groups.items():
        rows = [{"slice": value, **_metric(metric, metrics[metric])} for value, metrics in values.items()]
        rows.sort(key=lambda row: (row["value"] is None, sign * (row["value"] or 0)))
        yield {"by": expression, "rows": rows}


def _gate(gate: Mapping[str, Any]) -> dict[str, Any]:
    ends = {key: _number(gate.get(key)) for key in ("value", "low", "high")}
    texts = {key: str(gate.get(key) or "") for key in ("metric", "verdict", "rule", "reason")}
    return {**texts, **ends, "passed": gate["passed"] is True}


def _leaderboard(name: str, evaluation: Any) -> dict[str, Any] | None:
    """The metric of the ranks and the systems, best first; None for another kind of evaluation."""
    try:
        metric = str(evaluation["ranked_by"])
        return {
            "evaluation": name,
            "metric": metric,
            "systems": [_system(each, metric) for each in evaluation["systems"]],
        }
    except _INVALID:
        return None


def _system(system: Mapping[str, Any], metric: str) -> dict[str, Any]:
    first, last = map(int, system["rank"])
    ends = {key: _number(system[metric].get(key)) for key in ("value", "low", "high")}
    return {"system": str(system["system"]), "n": int(system["n"]), "rank": [first, last], **ends}


def _of_leaderboards(boards: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The metric of the first system."""
    for board in boards:
        for system in board["systems"][:1]:
            ends = {key: system[key] for key in ("value", "low", "high", "n")}
            name = f"{board['metric']} of {system['system']}"
            return {"evaluation": board["evaluation"], "metric": name, **ends, "of": "rows", "wrong": None}
    return None
