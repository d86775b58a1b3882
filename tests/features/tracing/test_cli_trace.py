"""`--trace`: what it needs, where it sends, and that nothing is loaded without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The console exporter, whatever the machine has set."""
    for name in (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_SDK_DISABLED",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    yield


def test_spans_go_where_the_environment_says_and_the_document_stays_whole(shell):
    done = shell(
        "run", shell.config(JUDGE), shell.rows(2), "--out", "out", "--json", "--quiet", "--trace"
    )
    assert done.code == 0
    assert done.json()["rows"] == 2
    assert done.err.count('"name": "chat lexical"') == 2
    assert "text 1" not in done.err


def test_prompts_are_in_the_trace_with_trace_content(shell):
    done = shell(
        "run",
        shell.config(JUDGE),
        shell.rows(2),
        "--out",
        "out",
        "-q",
        "--trace",
        "--trace-content",
    )
    assert "Rate text 1" in done.err


def test_content_without_a_trace_is_an_error(shell):
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace-content")
    assert (done.code, "--trace" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_what_the_extra_does_not_send_is_an_error(shell, monkeypatch, name, value):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv(name, value)
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace")
    assert done.code == 2
    assert f"{name}={value}" in done.err
    assert not (shell.folder / "out").exists()


def test_a_missing_package_names_the_extra(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    done = shell("run", shell.config(JUDGE), shell.rows(1), "--out", "out", "--trace")
    assert done.code == 2
    assert "pip install opentelemetry-sdk" in done.err
    assert not (shell.folder / "out").exists()


def test_without_the_flag_nothing_of_opentelemetry_is_loaded(shell):
    config, data = shell.config(JUDGE), shell.rows(1)
    code = (
        "import sys\nfrom verdict_cli.cli.app import main\n"
        f"sys.argv = ['verdict', 'run', {str(config)!r}, {str(data)!r}, '--out', 'out', '-q']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shell.folder,
        env={"PYTHONPATH": str(root), "PATH": "", "HOME": str(shell.folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.split()
    assert "verdict_cli.run.local" in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry")]


TRACE, SPAN = "5b8aa5a2d2c872e8321cf37308d69df2", "051581bf3cb55c13"
SCORED = "- {unit: JudgeUnit, name: judge, explanation: true, scale: {type: discrete, values: [1, 2, 3]}, prompt: 'Rate {source.text}'}"
TRACED = "model: baseline/lexical\ndataset: {trace: source.trace_id, span: source.span_id}"


def traced_rows(shell: Any, *judged: tuple[str | None, str | None]) -> Path:
    rows = [
        {"text": f"text {index}", "trace_id": ids[0], "span_id": ids[1]}
        for index, ids in enumerate(judged)
    ]
    path: Path = shell.write("traced.jsonl", jsonl(rows))
    return path


@pytest.fixture
def to_collector(monkeypatch: pytest.MonkeyPatch, collector: Any) -> Any:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    return collector


def test_each_judged_row_is_an_event_on_the_span_that_it_names(shell, to_collector):
    rows = traced_rows(shell, (TRACE, SPAN), (TRACE, None), (None, None))
    done = shell("run", shell.config(SCORED, TRACED), rows, "--out", "out", "-q", "--trace")
    assert done.code == 0, done.err
    first, second, third = to_collector.evaluations()
    assert first[:2] == (TRACE, SPAN)
    assert second[:2] == (TRACE, "")
    assert third[0] not in ("", TRACE) and third[1]
    spans = [span for _, _, body in to_collector.received["/v1/traces"] for span in spans_in(body)]
    (judged_span,) = [span for span in spans if span.span_id.hex() == third[1]]
    assert judged_span.name == "row" and not judged_span.links
    (linked,) = [span for span in spans if span.links and span.links[0].span_id]
    assert (linked.links[0].trace_id.hex(), linked.links[0].span_id.hex()) == (TRACE, SPAN)
    assert first[2]["gen_ai.evaluation.name"] == "t.score"
    assert first[2]["gen_ai.evaluation.score.value"] in (1.0, 2.0, 3.0)
    assert first[2]["gen_ai.evaluation.explanation"]
    assert first[2]["verdict.row.id"] == "0"


def spans_in(body: bytes) -> list[Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(body)
    return [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_a_failed_row_has_no_event(shell, to_collector, scripted_model):
    scripted_model.answer = lambda request: (
        "no score" if request.row.index else '{"explanation": "fine", "score": 2}'
    )
    config = shell.config(SCORED, TRACED.replace("baseline/lexical", "{name: m, retries: 0}"))
    rows = traced_rows(shell, (TRACE, SPAN), (TRACE, SPAN))
    shell("run", config, rows, "--out", "out", "-q", "--trace")
    ((_, _, attributes),) = to_collector.evaluations()
    assert attributes["gen_ai.evaluation.explanation"] == "fine"


def test_a_row_that_failed_in_one_unit_has_no_event_of_the_other(
    shell, to_collector, scripted_model
):
    scripted_model.answer = lambda request: "no score" if request.node == "a" else '{"score": 2}'
    unit = "{unit: JudgeUnit, name: %s, scale: {type: discrete, values: [1, 2, 3]}, prompt: '%s {source.text}'}"
    config = shell.config(
        f"- layer: [{unit % ('a', 'A')}, {unit % ('b', 'B')}]",
        "model: {name: m, retries: 0}",
        "two.yaml",
    )
    shell("run", config, traced_rows(shell, (TRACE, SPAN)), "--out", "out", "-q", "--trace")
    assert to_collector.received["/v1/traces"] and not to_collector.evaluations()
    assert "0 scores" in shell("export", "out", "--to", "otlp").err


@pytest.mark.parametrize(
    ("trace", "span", "value"),
    [
        ("abc", SPAN, "dataset.trace"),
        ("0" * 32, SPAN, "dataset.trace"),
        (TRACE, f"{SPAN}00", "dataset.span"),
    ],
)
def test_an_id_that_is_none_is_an_error_before_the_first_call(shell, trace, span, value):
    config, rows = shell.config(SCORED, TRACED), traced_rows(shell, (TRACE, SPAN), (trace, span))
    done = shell("run", config, rows, "--out", "out", "-q", "--trace")
    assert done.code == 2
    assert "row 1" in done.err and value in done.err and "hex digits" in done.err
    assert not (shell.folder / "out").exists()
    assert shell("run", config, rows, "--out", "out", "-q").code == 0


def test_a_span_without_a_trace_is_an_error(shell):
    done = shell(
        "validate", shell.config(SCORED, "model: baseline/lexical\ndataset: {span: source.span_id}")
    )
    assert done.code == 2 and "`span` needs `trace`" in done.err


def test_a_run_is_resumed_although_the_trace_is_new(shell):
    rows = traced_rows(shell, (TRACE, SPAN))
    assert shell("run", shell.config(SCORED), rows, "--out", "out", "-q").code == 0
    assert shell("run", shell.config(SCORED, TRACED), rows, "--out", "out", "-q").code == 0
    assert "source.trace_id" in (shell.folder / "out" / "spec.yaml").read_text(encoding="utf-8")
