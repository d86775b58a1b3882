"""A run's spans: run, rows, units and calls in one tree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from verdict_cli.errors import Rejected
from verdict_cli.features.tracing.spans import OpenTelemetrySpans
from verdict_cli.messages import Reply, Request

POOLED = """- layer:
    - {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
  repeat: 2
- {unit: MeanPoolUnit, name: mean, fields: [score]}"""


class Kept:
    """The spans of a run, and where each stands."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.trace = OpenTelemetrySpans(self._provider.get_tracer("t"))

    def close(self) -> None:
        self._provider.shutdown()

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def paths(self) -> list[str]:
        """Each span's way from the run, sorted."""
        spans_by_id = {span.context.span_id: span for span in self.all if span.context}

        def path(span: ReadableSpan) -> str:
            above = "" if span.parent is None else path(spans_by_id[span.parent.span_id]) + " / "
            row = (span.attributes or {}).get("verdict.row.id") if span.name == "row" else None
            return above + (span.name if row is None else f"row {row}")

        return sorted(path(span) for span in self.all)


@pytest.fixture
def recorder() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.close()


def test_calls_are_in_units_units_in_rows_and_rows_in_the_run(bench, recorder):
    bench.run(bench.job(2, POOLED, observer=recorder.trace))
    run = "verdict run t"
    assert recorder.paths() == sorted(
        [run]
        + [f"{run} / row {row}" for row in (0, 1)]
        + [f"{run} / row {row} / unit mean" for row in (0, 1)]
        + [f"{run} / row {row} / unit judge[{place}]" for row in (0, 1) for place in (0, 1)]
        + [
            f"{run} / row {row} / unit judge[{place}] / chat m"
            for row in (0, 1)
            for place in (0, 1)
        ]
    )
    (top,) = (span for span in recorder.all if span.parent is None)
    attributes = dict(top.attributes or {})
    assert (
        attributes["verdict.run.status"],
        attributes["verdict.run.done"],
        attributes["verdict.run.failed"],
    ) == (
        "finished",
        2,
        0,
    )


def test_a_failure_is_on_the_span_of_its_call_its_unit_and_its_row(bench, recorder):
    async def too_long(request: Request) -> Reply:
        if request.row.index == 1:
            raise Rejected("too long", kind="context-too-long")
        return Reply('{"score": 3}')

    bench.rule = too_long
    bench.run(bench.job(3, observer=recorder.trace))
    failed = [span for span in recorder.all if "error.type" in (span.attributes or {})]
    assert [span.name for span in failed] == ["chat m", "unit judge", "row"]
    assert {str((span.attributes or {})["error.type"]) for span in failed} == {"context-too-long"}


def test_every_attempt_is_a_span_of_its_own(bench, recorder):
    async def second_time(request: Request) -> Reply:
        return Reply('{"score": 3}' if request.attempt else "I would rather not")

    bench.rule = second_time
    bench.run(bench.job(1, observer=recorder.trace))
    calls = [span for span in recorder.all if span.name == "chat m"]
    assert [(span.attributes or {})["verdict.attempt"] for span in calls] == [0, 1]
