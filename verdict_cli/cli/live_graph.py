"""The graph of a row on standard error while it is judged: the state of each unit, and streamed replies as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from verdict_cli.cli.console import printable
from verdict_cli.errors import ProviderError, ReplyError, RowError
from verdict_cli.messages import Output, Request
from verdict_cli.plan.node import Plan
from verdict_cli.report.plan_graph import depth
from verdict_cli.report.row_outcome import brief
from verdict_cli.run.observer import RunObserver

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
        return f"{'  ' * self.indent}{_MARKS[self.state]} {self.id}  {printable(self.text)}".rstrip() + took


class LiveGraph(RunObserver):
    """RunObserver that update the display instead of being sent. `on_end` is called for each unit that ended."""

    def __init__(self, plan: Plan, on_end: Callable[[UnitStatus], None]) -> None:
        self.statuses = {node.id: UnitStatus(node.id, depth(plan, node)) for node in plan.nodes}
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
    with Live(get_renderable=lambda: _render(graph, console.width), console=console, refresh_per_second=12):
        yield


def _print_status(status: UnitStatus) -> None:
    sys.stderr.write(f"{status.line()}\n")


def _render(graph: LiveGraph, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(_fit(status, width), style=_STYLES[status.state]) for status in graph.statuses.values()))


def _fit(status: UnitStatus, width: int) -> str:
    """Cut the status to one line: to the end of a reply that is being streamed, otherwise to the beginning."""
    room = max(8, width - len(replace(status, text="").line()) - 2)
    text = status.text.replace("\n", " ")
    if len(text) > room:
        text = f"…{text[1 - room :]}" if status.state == "running" else f"{text[: room - 1]}…"
    return replace(status, text=text).line()
