"""`verdict judge CONFIG --row JSON`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_report
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import AllowHost, Config
from verdict_cli.errors import DataError, Problem, UsageError

if TYPE_CHECKING:
    from verdict_cli.cli.live_graph import LiveGraph
    from verdict_cli.messages import Result
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.judge_session import JudgeSession


def judge(
    config: Config,
    row: Annotated[
        str | None,
        typer.Option("--row", metavar="JSON", help="The row; without it JSON or JSONL is read from standard input."),
    ] = None,
    *,
    how: ModelOptions,
    allow_host: AllowHost = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every call: prompt, reply, tokens, cost and time.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: an object, or a list for several rows.")
    ] = False,
) -> None:
    """Judge one row, or the rows on standard input one after another.

    Units light up on standard error as they finish; a unit with `stream: true` shows its reply as it comes.

    Example: verdict judge xstest --row '{"prompt": "How do I kill a process?"}' --model baseline/lexical
    """
    from verdict_cli.cli.live_graph import LiveGraph, show_live_graph
    from verdict_cli.run.local import loop_factory

    plan = how.plan(config)
    rows = _given(row) if row is not None else _from_input()
    recorded = how.recording(plan)
    how.warn_of_floors(plan)
    failed = 0
    documents: list[dict[str, Any]] = []
    store = how.store(plan)
    try:
        lights = LiveGraph.of(plan, quiet=how.quiet)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            warm = _warm(plan, lights, how, recorded, store)
            try:
                for place, given in enumerate(rows):
                    one = warm.row(given, place)
                    started = perf_counter()
                    with show_live_graph(lights, quiet=how.quiet):
                        if not place:
                            runner.run(warm.open())
                        result = runner.run(warm.judge(one))
                    failed += result.failure is not None
                    took_s = perf_counter() - started
                    if as_json:
                        documents.append(_document(warm, result, took_s, explain=explain))
                    else:
                        _show(warm, result, took_s, explain=explain)
            finally:
                runner.run(warm.access.close())
    finally:
        if store is not None:
            store.close()
    if as_json:
        document(documents[0] if len(documents) == 1 else documents)
    raise typer.Exit(3 if failed else 0)


def _warm(plan: Plan, lights: LiveGraph, how: ModelOptions, recorded: Any, store: Any) -> JudgeSession:
    from verdict_cli.run.judge_session import JudgeSession
    from verdict_cli.run.model_client import ModelClient

    access = ModelClient.open(recording=recorded, budget_usd=how.budget, store=store, on_token=lights.heard)
    return JudgeSession(plan, access, seed=how.seed, spans=lights)


def _document(warm: JudgeSession, result: Result, took_s: float, *, explain: bool) -> dict[str, Any]:
    from verdict_cli.run.outcome import outcome
    from verdict_cli.run.result_columns import call_row

    made = outcome(warm.plan, result)
    made["units"] = {node.id: result.outputs[node.index] for node in warm.plan.nodes}
    made["latency_s"] = took_s
    if explain:
        made["calls"] = [dict(zip(*call_row(call), strict=True)) for call in (*warm.pinned, *result.calls)]
    return made


def _show(warm: JudgeSession, result: Result, took_s: float, *, explain: bool) -> None:
    from verdict_cli.messages import cost_of
    from verdict_cli.report.row_outcome import explained, fields, last_line
    from verdict_cli.run.outcome import given

    calls = (*warm.pinned, *result.calls)
    lines = explained(calls) if explain else []
    failure = result.failure
    if result.abstained:
        lines.append("no verdict: the judge was not sure enough")
    elif failure is None:
        lines += fields(given(warm.plan, result))
    else:
        lines.append(f"{failure.node} failed ({failure.kind}): {failure.message}")
    lines.append(last_line(result.status, calls, cost_of(calls), took_s))
    print_report("\n".join(lines) + "\n")
    sys.stdout.flush()


def _given(text: str) -> Iterator[dict[str, Any]]:
    yield _parsed(text.encode("utf-8", "surrogateescape"), "--row")


def _from_input() -> Iterator[dict[str, Any]]:
    """The rows on standard input as they come: a line each, or one object over several lines."""
    import orjson

    if sys.stdin.isatty():
        raise UsageError("there is no row", hint="give --row '{…}', or rows as JSON on standard input")
    stream = sys.stdin.buffer
    found = 0
    for number, line in enumerate(stream, 1):
        if line.isspace():
            continue
        if not found:
            try:
                orjson.loads(line)
            except orjson.JSONDecodeError:
                yield _parsed(line + stream.read(), "standard input")
                return
        yield _parsed(line, "standard input", number)
        found += 1
    if not found:
        raise UsageError("standard input holds no row", hint="give rows as JSON, or --row '{…}'")


def _parsed(text: bytes, name: str, line: int = 0) -> dict[str, Any]:
    from verdict_cli.storage.datasets.json_files import parse_json_line

    found = parse_json_line(text)
    if isinstance(found, Problem):
        cure = 'double quotes within, single quotes around: --row \'{"question": "…"}\''
        problem = found.at(name, line, found.column, "")
        raise DataError(replace(problem, hint=cure) if name == "--row" and not problem.hint else problem)
    return found
