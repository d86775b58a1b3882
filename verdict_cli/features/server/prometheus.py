"""The Prometheus metrics of `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from verdict_cli.messages import Call, Failure

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of the server. They do not include those of the process."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter("verdict_requests", "Requests.", ["endpoint", "status"], registry=registry)
        self._seconds = Histogram(
            "verdict_request_seconds",
            "Time from a request to its response.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._rows = Counter("verdict_rows", "Rows judged.", ["status"], registry=registry)
        self._failures = Counter("verdict_failures", "Rows that failed, by kind.", ["kind"], registry=registry)
        self._shed = Counter("verdict_shed", "Rejected requests.", ["status"], registry=registry)
        self._calls = Counter("verdict_model_calls", "Model calls.", ["model", "outcome"], registry=registry)
        self._tokens = Counter("verdict_tokens", "Tokens of model calls.", ["model", "kind"], registry=registry)
        self._cost = Counter(
            "verdict_cost_usd",
            "Cost of model calls in US dollars, where the price is known.",
            ["model"],
            registry=registry,
        )
        self._reloads = Counter("verdict_reloads", "Reloads of the pipeline.", ["outcome"], registry=registry)
        self._pipeline = Gauge(
            "verdict_pipeline_info", "The active pipeline.", ["name", "fingerprint"], registry=registry
        )

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is read on each scrape."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status in (413, 429, 503):
            self._shed.labels(status).inc()

    def count_row(self, failure: Failure | None, calls: tuple[Call, ...]) -> None:
        """Count a judged row and its calls."""
        self._rows.labels("ok" if failure is None else "failed").inc()
        if failure is not None:
            self._failures.labels(failure.kind).inc()
        for call in calls:
            model, reply = call.request.model.name, call.reply
            self._calls.labels(model, call.failure or ("cached" if reply and reply.cached else "ok")).inc()
            if reply is not None and not reply.cached:
                self._tokens.labels(model, "prompt").inc(reply.usage.prompt_tokens)
                self._tokens.labels(model, "completion").inc(reply.usage.completion_tokens)
                self._cost.labels(model).inc(reply.cost_usd or 0.0)

    def set_pipeline(self, name: str, fingerprint: str) -> None:
        """Set the active pipeline."""
        self._pipeline.clear()
        self._pipeline.labels(name, fingerprint).set(1)

    def count_reload(self, outcome: str) -> None:
        """Count a reload; the outcome is `ok` or `refused`."""
        self._reloads.labels(outcome).inc()

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
