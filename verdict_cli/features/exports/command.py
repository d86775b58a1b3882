"""`verdict export RUN --to TOOL`: the scores of a run in the forms of other tools."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import Struct

from verdict_cli import __version__
from verdict_cli.cli.console import print_message
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plural import plural
from verdict_cli.report.compress import encoded
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.observer import EVALUATION_EVENT, JudgedSpan, Score, evaluation_attributes
from verdict_cli.run.scores import check_judged_span, judged_span, output_scores
from verdict_cli.storage.paths import output_errors, replacing
from verdict_cli.storage.tables.reader import table_columns, table_rows

RECORDS_PER_REQUEST = 512
"""Events of one line, which is one request to a collector: what the SDK's exporter sends at once."""


class ScoredRow(Struct, frozen=True):
    """A row of a run: what was judged, the span it comes from, and its scores. ``failure`` is "" unless it failed."""

    index: int
    id: Any
    source: NamedValues
    judged: JudgedSpan | None
    scores: tuple[Score, ...]
    failure: str


def exported_rows(run: RunResult) -> Iterator[ScoredRow]:
    """The rows of the run, in the order of its dataset."""
    results, plan = run.directory.results, run.plan
    names = table_columns(results)
    sources = {name: name.removeprefix("source.") for name in names if name.startswith("source.")}
    outputs = {}
    for index in plan.outputs:
        node = plan.nodes[index]
        fields = {f"{node.id}.{field}": field for field in node.result.fields}
        outputs[node.id] = {name: field for name, field in fields.items() if name in names}
    wanted = dict.fromkeys(["row", "id", "status", "failure.message", *sources])
    wanted |= dict.fromkeys(name for fields in outputs.values() for name in fields)
    for values in table_rows(results, list(wanted)):
        row = dict(zip(wanted, values, strict=True))
        source = {field: row[name] for name, field in sources.items()}
        unit_outputs = {
            unit: {field: row[name] for name, field in fields.items()}
            for unit, fields in outputs.items()
        }
        scores = tuple(output_scores(plan, unit_outputs)) if row["status"] == "ok" else ()
        failure = row["failure.message"] or "failed"
        yield ScoredRow(
            row["row"],
            row["id"],
            source,
            judged_span(plan, source),
            scores,
            failure if row["status"] == "failed" else "",
        )


@dataclass
class ExportCounts:
    """How many scores were exported, and how many rows with scores were left out because they have no trace."""

    scores: int = 0
    without_trace: int = 0

    def count(self, rows: Iterable[ScoredRow], *, needs_trace: bool) -> Iterator[ScoredRow]:
        """The rows that are exported."""
        for row in rows:
            if needs_trace and row.scores and row.judged is None:
                self.without_trace += 1
                continue
            self.scores += len(row.scores)
            yield row


def write_export(run: RunResult, tool: str, out: Path) -> ExportCounts:
    """Write the run's scores for a tool of `EXPORTS`. UsageError where the tool needs what the run does not have."""
    counts = ExportCounts()
    if tool == "langfuse" and run.plan.trace is None:
        raise UsageError(
            "langfuse's scores belong to traces, and the pipeline does not name the rows' traces",
            hint="set `dataset: {trace: source.trace_id}`, and repeat the run's command: it makes no call again",
        )
    with replacing(out) as part, part.open("wb") as file:
        for piece in EXPORTS[tool](
            run, counts.count(exported_rows(run), needs_trace=tool == "langfuse")
        ):
            file.write(piece)
    return counts


def _langfuse(run: RunResult, rows: Iterable[ScoredRow]) -> Iterator[bytes]:
    """Bodies of `POST /api/public/scores`, one a line. The id is the score's own, so that a second upload replaces it."""
    facts = [run.facts.spec_fingerprint, run.facts.data_fingerprint]
    for row in rows:
        trace_id, span_id = row.judged or (None, None)
        for score in row.scores:
            kind = {bool: "BOOLEAN", str: "CATEGORICAL"}.get(type(score.given), "NUMERIC")
            body = {
                "id": hashlib.blake2b(
                    encoded([*facts, row.index, row.id, score.name]), digest_size=16
                ).hexdigest(),
                "traceId": trace_id,
                "observationId": span_id,
                "name": score.name,
                "value": score.given if kind == "CATEGORICAL" else score.value,
                "dataType": kind,
                "comment": score.explanation,
                "metadata": {
                    "row": row.id,
                    "score": score.value if kind == "CATEGORICAL" else None,
                    "started": run.facts.started,
                },
            }
            yield encoded({key: value for key, value in body.items() if value is not None}) + b"\n"


def inspect_name(run: RunResult) -> str:
    """The name by which Inspect's listings and viewer know a `.json` log: `TIME_TASK_ID.json`."""
    task = re.sub(r"[^A-Za-z0-9-]+", "-", run.facts.name).strip("-") or "task"
    started = run.facts.started.replace(":", "-").replace("+", "-")
    return f"{started}_{task}_{run.facts.spec_fingerprint[:22]}.json"


def _inspect(run: RunResult, rows: Iterable[ScoredRow]) -> Iterator[bytes]:
    """A `.json` log of Inspect, with a sample for each row. A failed row is a sample with an error."""
    facts = run.facts
    header = {
        "version": 2,
        "status": "success" if facts.status == "finished" else "cancelled",
        "eval": {
            "eval_id": facts.spec_fingerprint[:22],
            "run_id": facts.data_fingerprint[:22],
            "created": facts.started,
            "task": facts.name,
            "task_id": facts.spec_fingerprint[:22],
            "dataset": {"name": Path(facts.dataset).name or None, "samples": facts.rows},
            "model": "none/none",  # what Inspect writes where no model was evaluated: the outputs are recorded ones
            "config": {"epochs": 1, "fail_on_error": False},
            "packages": {"verdict": facts.version},
            "metadata": {"judges": dict(facts.models)},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {"total_samples": facts.rows, "completed_samples": facts.rows - facts.failed},
        "stats": {"started_at": facts.started},
    }
    yield encoded(header)[:-1] + b',"samples":['
    for number, row in enumerate(rows):
        input_value, target = row.source.get("input"), row.source.get("target")
        sample = {
            "id": row.id,
            "epoch": 1,
            "input": input_value if isinstance(input_value, str) else encoded(row.source).decode(),
            "target": target if isinstance(target, str) else "",
            "metadata": row.source,
            "scores": {
                score.name: {"value": score.given, "explanation": score.explanation}
                for score in row.scores
            },
        }
        if row.failure:
            sample["error"] = {"message": row.failure, "traceback": "", "traceback_ansi": ""}
        yield (b"," if number else b"") + encoded(sample)
    yield b"]}\n"


def _otlp(run: RunResult, rows: Iterable[ScoredRow]) -> Iterator[bytes]:
    """The events as the collector's file exporter writes them: a document a line."""
    events = _log_records(run, rows)
    resource = {"attributes": _attributes({"service.name": "verdict"})}
    scope = {"name": "verdict", "version": __version__}
    while records := list(islice(events, RECORDS_PER_REQUEST)):
        logs = [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}]
        yield encoded({"resourceLogs": logs}) + b"\n"


def _log_records(run: RunResult, rows: Iterable[ScoredRow]) -> Iterator[JsonObject]:
    judged_at = str(round(datetime.fromisoformat(run.facts.started).timestamp() * 1e9))
    observed = str(time.time_ns())
    for row in rows:
        if run.plan.trace is not None and (reason := check_judged_span(run.plan, row.source)):
            raise DataError(
                Problem(
                    "trace-id",
                    f"row {row.index}: {reason}",
                    "OpenTelemetry has ids of no other form",
                )
            )
        row_attributes = {"verdict.row.index": row.index, "verdict.row.id": str(row.id)}
        ids = (
            {}
            if row.judged is None
            else {"traceId": row.judged.trace_id, "spanId": row.judged.span_id or ""}
        )
        for score in row.scores:
            yield {
                "timeUnixNano": judged_at,
                "observedTimeUnixNano": observed,
                "eventName": EVALUATION_EVENT,
                "attributes": _attributes({**evaluation_attributes(score), **row_attributes}),
                **ids,
            }


def _attributes(values: NamedValues) -> list[JsonObject]:
    """Attributes in OTLP's JSON, where 64-bit integers are texts."""
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    return [
        {
            "key": key,
            "value": {kinds[type(value)]: str(value) if isinstance(value, int) else value},
        }
        for key, value in values.items()
    ]


EXPORTS: Mapping[str, Callable[[RunResult, Iterable[ScoredRow]], Iterator[bytes]]] = {
    "langfuse": _langfuse,
    "otlp": _otlp,
    "inspect": _inspect,
}
"""The tools that scores can be exported to."""
Tool = Literal["langfuse", "otlp", "inspect"]
"""Where scores are exported to (`--to`)."""


def export(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    to: Annotated[Tool, typer.Option("--to", help="The tool that reads the scores.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The file; for inspect also its log folder. [default: RUN-TOOL.json or .jsonl, here; for inspect in logs]",
        ),
    ] = None,
) -> None:
    """Write a run's scores in the form that another tool reads.

    A score is a number, a boolean or a value of a scale in the output of the pipeline's last step, with its explanation.
    `dataset: {trace: …, span: …}` in the pipeline file names the trace and the span that a row judges.

    Example: verdict export runs/demo/judge --to inspect --out logs
    """
    from verdict_cli.run.load_run import load_run

    result = load_run(run)
    suffix = ".json" if to == "inspect" else ".jsonl"
    if to == "inspect" and (out is None or out.is_dir() or not out.suffix):
        out = (out or Path("logs")) / inspect_name(result)
        with output_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
    out = out or Path(f"{run.resolve().name}-{to}{suffix}")
    if out.suffix != suffix:
        raise UsageError(f"--out {out}: {to} reads {suffix}", hint="change the ending")
    counts = write_export(result, to, out)
    left_out = (
        f"; {plural(counts.without_trace, 'row has|rows have')} no trace and were left out"
        if counts.without_trace
        else ""
    )
    print_message(f"{counts.scores:,} scores: {out}{left_out}")
