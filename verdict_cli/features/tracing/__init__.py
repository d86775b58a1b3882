"""`--trace`: OpenTelemetry spans of a run, its rows, units and calls, and the rows' scores as events."""

from verdict_cli.registry import PartSpec

_OPTION = {"trace": PartSpec("option.TraceOption")}
PARTS = {
    "run_options": _OPTION,
    "serve_options": _OPTION,
    "middleware": {"tracing": PartSpec("calls.trace_calls")},
}
