"""What Prometheus reads at `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from verdict_cli.messages import Call, Failure

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The server's own counters; no state of the process's."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        own = self._registry
        self._requests = Counter("verdict_requests", "Requests answered.", ["endpoint", "status"], registry=own)
        self._seconds = Histogram(
            "verdict_request_seconds",
            "From a request's arrival to its answer.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=own,
        )
        self._rows = Counter("verdict_rows", "Rows judged.", ["status"], registry=own)
        self._failures = Counter("verdict_failures", "Rows that failed, by kind.", ["kind"], registry=own)
        self._shed = Counter("verdict_shed", "Requests turned away.", ["status"], registry=own)
        self._calls = Counter("verdict_model_calls", "Model calls.", ["model", "outcome"], registry=own)
        self._tokens = Counter("verdict_tokens", "Tokens that calls were charged for.", ["model", "kind"], registry=own)
        self._cost = Counter(
            "verdict_cost_usd", "US dollars that calls cost, where the price is known.", ["model"], registry=own
        )
        self._reloads = Counter("verdict_reloads", "Reloads of the pipeline.", ["outcome"], registry=own)
        self._pipeline = Gauge(
            "verdict_pipeline_info", "The pipeline that answers.", ["name", "fingerprint"], registry=own
        )

    def gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Adds a figure that is looked up whenever it is asked for."""
        Gauge(name, words, registry=self._registry).set_function(value)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status in (413, 429, 503):
            self._shed.labels(status).inc()

    def judged(self, failure: Failure | None, calls: tuple[Call, ...]) -> None:
        """Counts a row and its calls."""
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

    def loaded(self, name: str, fingerprint: str) -> None:
        """Names the pipeline that answers from now on."""
        self._pipeline.clear()
        self._pipeline.labels(name, fingerprint).set(1)

    def reloaded(self, outcome: str) -> None:
        """Counts a reload: `ok` or `refused`."""
        self._reloads.labels(outcome).inc()

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
