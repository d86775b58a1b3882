"""`--trace`: send OpenTelemetry spans, as configured by the OTEL_* environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from verdict_cli import __version__
from verdict_cli.errors import UsageError
from verdict_cli.llm.tracing import Spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


@contextmanager
def trace_to_otel(*, wanted: bool, content: bool, environ: Mapping[str, str] = os.environ) -> Iterator[Spans]:
    """Send the spans of a run, and flush them at the end. UsageError if OpenTelemetry or the exporter is not installed."""
    if content and not wanted:
        raise UsageError("--trace-content needs --trace", hint="give both")
    if not wanted:
        yield Spans()
        return
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from verdict_cli.llm.middleware.open_telemetry import OpenTelemetrySpans

        exporter = _exporter(environ)
    except ImportError:
        raise UsageError(
            "--trace needs OpenTelemetry, which is not installed",
            hint="in a checkout of verdict: pip install '.[otel]'",
        ) from None
    named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {SERVICE_NAME: "verdict"}))
    if exporter is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield OpenTelemetrySpans(provider.get_tracer("verdict", __version__), content=content)
    finally:
        provider.shutdown()


def _exporter(environ: Mapping[str, str]) -> SpanExporter | None:
    """The exporter that OTEL_TRACES_EXPORTER names; None for `none`."""
    name = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "none":
        return None
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if name != "otlp":
        raise UsageError(
            f"OTEL_TRACES_EXPORTER={name} is not an exporter of --trace", hint="set it to otlp, console or none"
        )
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environ.get(variable):
            if environ[variable] != "http/protobuf":
                raise UsageError(
                    f"{variable}={environ[variable]} is not a protocol of --trace", hint="set it to http/protobuf"
                )
            break
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter: SpanExporter = OTLPSpanExporter()
    return exporter
