"""`--trace`: OpenTelemetry spans of a run, its rows, units and calls, and the rows' scores as events."""
