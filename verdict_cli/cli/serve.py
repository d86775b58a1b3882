"""`verdict serve CONFIG`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from verdict_cli.cli.console import print_message
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import Concurrency, Config, TraceContent, TraceOption
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def serve(
    config: Config,
    host: Annotated[
        str, typer.Option("--host", help="The address; another than this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    *,
    how: ModelOptions,
    concurrency: Concurrency = 64,
    in_flight: Annotated[int, typer.Option("--in-flight", min=1, help="Rows judged at once.")] = 64,
    queue: Annotated[
        int, typer.Option("--queue", min=0, help="Rows that may wait; more are turned away with 429.")
    ] = 256,
    deadline: Annotated[
        float, typer.Option("--deadline", min=0.001, metavar="SECONDS", help="The longest a request may take.")
    ] = 30.0,
    policy: Annotated[
        Literal["closed", "open"],
        typer.Option(
            "--policy", help="What a failed judgement is answered: closed, an error; open, a success that says so."
        ),
    ] = "closed",
    accept: Annotated[
        str | None,
        typer.Option("--accept", metavar="EXPR", help="A rule over the outcome, such as 'output.score > 0.5'."),
    ] = None,
    reward: Annotated[
        str | None, typer.Option("--reward", metavar="EXPR", help="The number that /reward gives. [default: the score]")
    ] = None,
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="The environment variable that holds the token.")
    ] = "VERDICT_TOKEN",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further Host that is answered; * for any."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option("--allow-origin", metavar="ORIGIN", help="An Origin whose pages may ask.")
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", min=1, metavar="MIB", help="The largest body.")] = 8,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="DIR", help="Where batches are kept. [default: runs/serve-NAME]")
    ] = None,
    drain: Annotated[
        float, typer.Option("--drain", min=0, metavar="SECONDS", help="What a stop waits for work that was taken on.")
    ] = 30.0,
    trace: TraceOption = False,
    trace_content: TraceContent = False,
) -> None:
    """Answer over HTTP: /judge, /judge/batch, /reward, /health, /metrics. Needs the extra `serve`.

    SIGTERM finishes what was taken on and stops; SIGHUP reads the pipeline file anew.

    Example: verdict serve xstest --model baseline/lexical
    """
    try:
        from verdict_cli.http.api.server import serve_api as run_server
        from verdict_cli.http.guard.listening import bind_socket, needs_token
        from verdict_cli.http.guard.middleware import AccessPolicy
    except ImportError as fault:
        raise UsageError(
            f"verdict serve needs {fault.name}, which is not installed",
            hint="in a checkout of verdict: pip install '.[serve]'",
        ) from None
    from verdict_cli.cli.trace_option import trace_to_otel
    from verdict_cli.http.api.settings import Limits
    from verdict_cli.http.api.settings import ServeSettings as Served
    from verdict_cli.run.model_client import ModelClient
    from verdict_cli.run.preflight import load_recording

    token = os.environ.get(token_env) or None
    if token is None and needs_token(host):
        raise UsageError(
            f"{host} can be reached by others, and there is no token",
            hint=f"set {token_env} to a long random text, or leave --host out",
        )

    def load() -> Plan:
        plan = how.plan(config)
        how.recording(plan)
        return plan

    plan = load()
    served = Served(
        Limits(in_flight, queue, deadline, max_body * 2**20, drain_s=drain),
        AccessPolicy(token, AccessPolicy.names(host, allow_host or ()), tuple(allow_origin or ())),
        policy,
        accept,
        reward,
        how.seed,
        state or Path("runs") / f"serve-{plan.name}",
        how.replay,
    )
    how.warn_of_floors(plan)
    store = how.store(plan)
    try:
        with trace_to_otel(wanted=trace, content=trace_content) as spans, bind_socket(host, port) as at:
            run_server(
                served,
                plan,
                load,
                lambda: ModelClient.open(
                    concurrency=concurrency,
                    recording=None if how.replay is None else load_recording(how.replay, plan),
                    budget_usd=how.budget,
                    store=store,
                ),
                concurrency,
                at,
                (lambda _: None) if how.quiet else print_message,
                spans,
            )
    finally:
        if store is not None:
            store.close()
