"""`verdict serve CONFIG`."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import NO_EXTRAS, Concurrency, Config
from verdict_cli.errors import UsageError
from verdict_cli.messages import NamedValues
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.preflight import load_recording

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How much a server takes on, what it answers, and to whom."""

    concurrency: Concurrency = 64
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="The most rows judged concurrently.")
    ] = 64
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            min=0,
            help="The most rows that wait. Further ones are rejected with status 429.",
        ),
    ] = 256
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline", min=0.001, metavar="SECONDS", help="The time limit of a request."
        ),
    ] = 30.0
    policy: Annotated[
        Literal["closed", "open"],
        typer.Option(
            "--policy",
            help="The response to a failed judgement: an error (closed), or status 200 with the failure (open).",
        ),
    ] = "closed"
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept",
            metavar="EXPR",
            help="The condition for `accepted` in responses, such as 'output.score > 0.5'.",
        ),
    ] = None
    token_env: Annotated[
        str,
        typer.Option(
            "--token-env", metavar="NAME", help="The environment variable that holds the token."
        ),
    ] = "VERDICT_TOKEN"
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Also accept requests with this Host header; * accepts any.",
        ),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="Also accept requests from pages of this origin.",
        ),
    ] = None
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, metavar="MIB", help="The largest request body.")
    ] = 8
    drain: Annotated[
        float,
        typer.Option(
            "--drain", min=0, metavar="SECONDS", help="How long a stop waits for accepted work."
        ),
    ] = 30.0


def serve(
    config: Config,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen on. Other than this machine's own, it needs a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8000,
    *,
    options: ModelOptions,
    serving: ServeOptions,
    extras: NamedValues = NO_EXTRAS,
) -> None:
    """Serve a judge over HTTP: /judge, /v1/chat/completions, /v1/decisions, /health, /metrics.

    On SIGTERM, and when its terminal is closed, the server finishes accepted work and stops. On SIGHUP without a terminal it
    reloads the pipeline file.

    Example: verdict serve xstest --model baseline/lexical
    """
    from verdict_cli.features.guard.middleware import AccessPolicy, bind_socket, needs_token
    from verdict_cli.features.server.app import serve_api
    from verdict_cli.features.server.service import Limits, ServeSettings

    token = os.environ.get(serving.token_env) or None
    if token is None and needs_token(host):
        raise UsageError(
            f"other machines can reach {host}, and there is no token",
            hint=f"set {serving.token_env} to a long random text, or remove --host",
        )

    def load() -> Plan:
        plan = options.plan(config)
        options.recording(plan)
        return plan

    plan = load()
    settings = ServeSettings(
        Limits(
            serving.in_flight,
            serving.queue,
            serving.deadline,
            serving.max_body * 2**20,
            drain_s=serving.drain,
        ),
        AccessPolicy(
            token,
            AccessPolicy.allowed_hosts(host, serving.allow_host or ()),
            tuple(serving.allow_origin or ()),
        ),
        serving.policy,
        serving.accept,
        options.seed,
    )
    options.warn_of_baselines(plan)
    with (
        options.opened_store(plan) as store,
        bind_socket(host, port) as listener,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):

        def open_client() -> ModelClient:
            replay = options.replay
            return ModelClient.open(
                concurrency=serving.concurrency,
                recording=None if replay is None else load_recording(replay, plan),
                budget_usd=options.budget,
                store=store,
            )

        runner.run(
            serve_api(
                settings,
                plan,
                load,
                open_client,
                listener,
                (lambda _: None) if options.quiet else print_message,
                print_error,
                extras.get("observer") or RunObserver(),
            )
        )
