"""`--trace`: send OpenTelemetry spans and evaluation events, as configured by the OTEL_* environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from verdict_cli import __version__
from verdict_cli.cli.options import CommandCall
from verdict_cli.errors import UsageError
from verdict_cli.messages import JsonObject


@dataclass(frozen=True, kw_only=True)
class TraceOption:
    """Watch the command's rows and calls by OpenTelemetry. Raises UsageError where it cannot."""

    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            rich_help_panel="Tracing",
            help="Send OpenTelemetry spans, as configured by the OTEL_* variables.",
        ),
    ] = False
    trace_content: Annotated[
        bool,
        typer.Option(
            "--trace-content",
            rich_help_panel="Tracing",
            help="With --trace: include prompts and replies.",
        ),
    ] = False

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        if self.trace_content and not self.trace:
            raise UsageError("--trace-content needs --trace", hint="give both")
        if not self.trace:
            return nullcontext()
        return trace_to_otel(call.extras, content=self.trace_content)


@contextmanager
def trace_to_otel(
    extras: JsonObject, *, content: bool, environ: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Send spans and scores to the end, with the observer in ``extras``. UsageError if OpenTelemetry or the exporter is not installed."""
    try:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from verdict_cli.features.tracing.spans import OpenTelemetrySpans

        span_exporter = _exporter("TRACES", environ)
        event_exporter = _exporter("LOGS", environ)
    except ImportError:
        raise UsageError(
            "--trace needs OpenTelemetry, which is not installed",
            hint="pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        ) from None
    has_service_name = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if has_service_name else {SERVICE_NAME: "verdict"})
    tracers, loggers = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    if span_exporter is not None:
        tracers.add_span_processor(BatchSpanProcessor(span_exporter))
    if event_exporter is not None:
        loggers.add_log_record_processor(BatchLogRecordProcessor(event_exporter))
    tracer, logger = (
        tracers.get_tracer("verdict", __version__),
        loggers.get_logger("verdict", __version__),
    )
    extras["observer"] = OpenTelemetrySpans(tracer, logger, content=content)
    try:
        yield
    finally:
        tracers.shutdown()
        loggers.shutdown()


def _exporter(signal: str, environ: Mapping[str, str]) -> Any:
    """The exporter of a signal that OTEL_TRACES_EXPORTER or OTEL_LOGS_EXPORTER names; None for `none`.

    Events go where spans go unless the latter is set.
    """
    variable = f"OTEL_{signal}_EXPORTER"
    if not environ.get(variable):
        variable = "OTEL_TRACES_EXPORTER"
    name = environ.get(variable) or "otlp"
    if name == "none":
        return None
    if name == "console":
        if signal == "LOGS":
            from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter

            return ConsoleLogRecordExporter(out=sys.stderr)
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if name != "otlp":
        raise UsageError(
            f"{variable}={name} is not an exporter of --trace",
            hint="set it to otlp, console or none",
        )
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environ.get(variable):
            if environ[variable] != "http/protobuf":
                raise UsageError(
                    f"{variable}={environ[variable]} is not a protocol of --trace",
                    hint="set it to http/protobuf",
                )
            break
    if signal == "LOGS":
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

        return OTLPLogExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
