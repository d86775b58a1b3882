"""`verdict judge CONFIG --row JSON`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from verdict_cli.cli.console import print_json, print_report
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import AllowHost, Config
from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.messages import Result, cost_of
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.outcome import given, outcome
from verdict_cli.run.result_columns import call_row
from verdict_cli.storage.datasets.json_files import parse_json_line

if TYPE_CHECKING:
    from verdict_cli.cli.live_graph import LiveGraph
    from verdict_cli.plan.node import Plan


def judge(
    config: Config,
    row: Annotated[
        str | None, typer.Option("--row", metavar="JSON", help="The row. [default: JSON or JSONL on standard input]")
    ] = None,
    *,
    options: ModelOptions,
    allow_host: AllowHost = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every call: prompt, reply, tokens, cost and time.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: an object, or a list for several rows.")
    ] = False,
) -> None:
    """Judge one row, or the rows from standard input one after another.

    The state of each unit is shown on standard error. A unit with `stream: true` shows its reply as it arrives.

    Example: verdict judge xstest --row '{"prompt": "How do I kill a process?"}' --model baseline/lexical
    """
    from verdict_cli.cli.live_graph import LiveGraph, show_live_graph

    plan = options.plan(config)
    rows = _row_from_option(row) if row is not None else _rows_from_stdin()
    replay = options.recording(plan)
    options.warn_of_baselines(plan)
    failed = 0
    documents: list[dict[str, Any]] = []
    store = options.store(plan)
    try:
        graph = LiveGraph.for_plan(plan, quiet=options.quiet)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            session = _open_session(plan, graph, options, replay, store)
            try:
                for index, values in enumerate(rows):
                    item = session.row(values, index)
                    started = perf_counter()
                    with show_live_graph(graph, quiet=options.quiet):
                        if not index:
                            runner.run(session.open())
                        result = runner.run(session.judge(item))
                    failed += result.failure is not None
                    took_s = perf_counter() - started
                    if as_json:
                        documents.append(_document(session, result, took_s, explain=explain))
                    else:
                        _show(session, result, took_s, explain=explain)
            finally:
                runner.run(session.client.close())
    finally:
        if store is not None:
            store.close()
    if as_json:
        print_json(documents[0] if len(documents) == 1 else documents)
    raise typer.Exit(3 if failed else 0)


def _open_session(plan: Plan, graph: LiveGraph, options: ModelOptions, replay: Any, store: Any) -> JudgeSession:
    client = ModelClient.open(recording=replay, budget_usd=options.budget, store=store, on_token=graph.append_chunk)
    return JudgeSession(plan, client, seed=options.seed, observer=graph)


def _document(session: JudgeSession, result: Result, took_s: float, *, explain: bool) -> dict[str, Any]:
    content = outcome(session.plan, result)
    content["units"] = {node.id: result.outputs[node.index] for node in session.plan.nodes}
    content["latency_s"] = took_s
    if explain:
        content["calls"] = [dict(zip(*call_row(call), strict=True)) for call in (*session.pinned, *result.calls)]
    return content


def _show(session: JudgeSession, result: Result, took_s: float, *, explain: bool) -> None:
    from verdict_cli.report.row_outcome import explained, fields, last_line

    calls = (*session.pinned, *result.calls)
    lines = explained(calls) if explain else []
    failure = result.failure
    if result.abstained:
        lines.append("no verdict: the judge was not sure enough")
    elif failure is None:
        lines += fields(given(session.plan, result))
    else:
        lines.append(f"{failure.node} failed ({failure.kind}): {failure.message}")
    lines.append(last_line(result.status, calls, cost_of(calls), took_s))
    print_report("\n".join(lines) + "\n")
    sys.stdout.flush()


def _row_from_option(text: str) -> Iterator[dict[str, Any]]:
    yield parse_row(text.encode("utf-8", "surrogateescape"), "--row")


def _rows_from_stdin() -> Iterator[dict[str, Any]]:
    """Yield the rows from standard input as they arrive: one per line, or a single object over several lines."""
    if sys.stdin.isatty():
        raise UsageError("no row to judge", hint="give --row '{…}', or rows as JSON on standard input")
    stream = sys.stdin.buffer
    count = 0
    for number, line in enumerate(stream, 1):
        if line.isspace():
            continue
        if not count:
            try:
                orjson.loads(line)
            except orjson.JSONDecodeError:
                yield parse_row(line + stream.read(), "standard input")
                return
        yield parse_row(line, "standard input", number)
        count += 1
    if not count:
        raise UsageError("standard input has no rows", hint="give rows as JSON, or --row '{…}'")


def parse_row(text: bytes, name: str, line: int = 0) -> dict[str, Any]:
    """Parse a row given as JSON. DataError with the position in `name`, which is `--row` or a file."""
    value = parse_json_line(text)
    if isinstance(value, Problem):
        hint = 'single quotes around the row, double quotes inside: --row \'{"question": "…"}\''
        problem = value.at(name, line, value.column, "")
        raise DataError(replace(problem, hint=hint) if name == "--row" and problem.code == "broken-json" else problem)
    return value
