"""`verdict judge CONFIG --row JSON`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from msgspec import structs

from verdict_cli.cli.console import print_json, print_report, printable
from verdict_cli.cli.model_options import ModelOptions
from verdict_cli.cli.options import AllowHost, Config
from verdict_cli.errors import DataError, Problem, ProviderError, ReplyError, RowError, UsageError
from verdict_cli.messages import JsonObject, Output, Request, Result, cost_of
from verdict_cli.plan.node import Plan
from verdict_cli.report.plan_graph import depths
from verdict_cli.report.row_outcome import brief
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.outcome import given, outcome
from verdict_cli.storage.datasets.json_files import parse_json_line
from verdict_cli.storage.tables.run_columns import CallRecord, call_columns

if TYPE_CHECKING:
    from rich.console import RenderableType


_MARKS = {"waiting": "○", "running": "◐", "done": "●", "failed": "✗"}
_STYLES = {"waiting": "dim", "running": "yellow", "done": "green", "failed": "red"}


@dataclass
class UnitStatus:
    """The state of one unit, its output or streamed reply, and its duration."""

    id: str
    indent: int
    state: str = "waiting"
    text: str = ""
    started: float = 0.0
    took_s: float = 0.0

    def line(self) -> str:
        """`● judge[0]  score=4  0.3 s`."""
        took = f"  {self.took_s:.1f} s" if self.state in ("done", "failed") else ""
        return (
            f"{'  ' * self.indent}{_MARKS[self.state]} {self.id}  {printable(self.text)}".rstrip()
            + took
        )


class LiveGraph(RunObserver):
    """RunObserver that update the display instead of being sent. `on_end` is called for each unit that ended."""

    def __init__(self, plan: Plan, on_end: Callable[[UnitStatus], None]) -> None:
        self.statuses = {
            node.id: UnitStatus(node.id, depth)
            for node, depth in zip(plan.nodes, depths(plan), strict=True)
        }
        self._on_end = on_end

    @classmethod
    def for_plan(cls, plan: Plan, *, quiet: bool) -> LiveGraph:
        """The graph of a plan. If standard error is not a terminal, a line is written for each unit that ended."""
        return cls(plan, _print_status if not quiet and not sys.stderr.isatty() else lambda _: None)

    @contextmanager
    def unit(self, node: str) -> Iterator[Callable[[Output | None], None]]:
        status = self.statuses[node]
        status.state, status.text, status.started = "running", "", perf_counter()

        def finish(output: Output | None) -> None:
            status.state, status.text = "done", "abstained" if output is None else brief(output)

        try:
            yield finish
        except (ProviderError, ReplyError, RowError) as error:
            status.state, status.text = "failed", f"{error.failure}: {error.message}"
            raise
        finally:
            status.took_s = perf_counter() - status.started
            self._on_end(status)

    def append_chunk(self, request: Request, chunk: str) -> None:
        """Show the next chunk of a streamed reply."""
        self.statuses[request.node].text += chunk


@contextmanager
def show_live_graph(graph: LiveGraph, *, quiet: bool) -> Iterator[None]:
    """On a terminal, redraw the graph of one row while it is judged."""
    for status in graph.statuses.values():
        status.state, status.text = "waiting", ""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    with Live(
        get_renderable=lambda: _render(graph, console.width), console=console, refresh_per_second=12
    ):
        yield


def _print_status(status: UnitStatus) -> None:
    sys.stderr.write(f"{status.line()}\n")


def _render(graph: LiveGraph, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(
        *(
            Text(_fit(status, width), style=_STYLES[status.state])
            for status in graph.statuses.values()
        )
    )


def _fit(status: UnitStatus, width: int) -> str:
    """Cut the status to one line: to the end of a reply that is being streamed, otherwise to the beginning."""
    room = max(8, width - len(replace(status, text="").line()) - 2)
    text = status.text.replace("\n", " ")
    if len(text) > room:
        text = f"…{text[1 - room :]}" if status.state == "running" else f"{text[: room - 1]}…"
    return replace(status, text=text).line()


def judge(
    config: Config,
    row: Annotated[
        str | None,
        typer.Option(
            "--row", metavar="JSON", help="The row. [default: JSON or JSONL on standard input]"
        ),
    ] = None,
    *,
    options: ModelOptions,
    allow_host: AllowHost = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print every call: prompt, reply, tokens, cost and time."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON document: an object, or a list for several rows."
        ),
    ] = False,
) -> None:
    """Judge one row, or the rows from standard input one after another.

    The state of each unit is shown on standard error. A unit with `stream: true` shows its reply as it arrives.

    Example: verdict judge xstest --row '{"prompt": "How do I kill a process?"}' --model baseline/lexical
    """
    plan = options.plan(config)
    rows = _rows_from_stdin() if row is None else iter([row_of_option(row)])
    replay = options.recording(plan)
    options.warn_of_baselines(plan)
    failed = 0
    documents: list[JsonObject] = []
    graph = LiveGraph.for_plan(plan, quiet=options.quiet)
    with (
        options.opened_store(plan) as store,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        client = ModelClient.open(
            recording=replay, budget_usd=options.budget, store=store, on_token=graph.append_chunk
        )
        session = JudgeSession(plan, client, seed=options.seed, observer=graph)
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
            runner.run(client.close())
    if as_json:
        print_json(documents[0] if len(documents) == 1 else documents)
    raise typer.Exit(3 if failed else 0)


def _document(session: JudgeSession, result: Result, took_s: float, *, explain: bool) -> JsonObject:
    content = outcome(session.plan, result)
    content["units"] = {node.id: result.outputs[node.index] for node in session.plan.nodes}
    content["latency_s"] = took_s
    if explain:
        content["calls"] = [
            {name: value for name, (value,) in call_columns([CallRecord.of(call)]).items()}
            for call in (*session.pinned, *result.calls)
        ]
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


def row_of_option(text: str) -> JsonObject:
    """The row that `--row` gives."""
    return parse_row(text.encode("utf-8", "surrogateescape"), "--row")


def _rows_from_stdin() -> Iterator[JsonObject]:
    """Yield the rows from standard input as they arrive: one per line, or a single object over several lines."""
    if sys.stdin.isatty():
        raise UsageError(
            "no row to judge", hint="give --row '{…}', or rows as JSON on standard input"
        )
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


def parse_row(text: bytes, name: str, line: int = 0) -> JsonObject:
    """Parse a row given as JSON. DataError with the position in `name`, which is `--row` or a file."""
    value = parse_json_line(text)
    if isinstance(value, Problem):
        hint = 'single quotes around the row, double quotes inside: --row \'{"question": "…"}\''
        problem = value.at(name, line, value.column, "")
        raise DataError(
            structs.replace(problem, hint=hint)
            if name == "--row" and problem.code == "broken-json"
            else problem
        )
    return value
