"""A row's graph on standard error while it is judged: units light up as they finish, streamed replies as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from verdict_cli.cli.console import printable
from verdict_cli.errors import ProviderError, ReplyError, RowError
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Output, Request
from verdict_cli.plan.node import Plan
from verdict_cli.report.plan_graph import depth
from verdict_cli.report.row_outcome import brief

if TYPE_CHECKING:
    from rich.console import RenderableType

_MARKS = {"waiting": "○", "running": "◐", "done": "●", "failed": "✗"}
_STYLES = {"waiting": "dim", "running": "yellow", "done": "green", "failed": "red"}


@dataclass
class UnitStatus:
    """One unit: how it stands, what it says, and how long it took."""

    id: str
    indent: int
    state: str = "waiting"
    words: str = ""
    started: float = 0.0
    took_s: float = 0.0

    def line(self) -> str:
        """`● judge[0]  score=4  0.3 s`."""
        took = f"  {self.took_s:.1f} s" if self.state in ("done", "failed") else ""
        return f"{'  ' * self.indent}{_MARKS[self.state]} {self.id}  {printable(self.words)}".rstrip() + took


class LiveGraph(Spans):
    """Spans that only show: `lit` draws them, a line is written for each unit that ended."""

    def __init__(self, plan: Plan, ended: Callable[[UnitStatus], None]) -> None:
        self.lights = {node.id: UnitStatus(node.id, depth(plan, node)) for node in plan.nodes}
        self._ended = ended

    @classmethod
    def of(cls, plan: Plan, *, quiet: bool) -> LiveGraph:
        """The plan's lights; lines are written where standard error is no terminal."""
        return cls(plan, _written if not quiet and not sys.stderr.isatty() else lambda _: None)

    @contextmanager
    def unit(self, node: str) -> Iterator[Callable[[Output | None], None]]:
        """Lights the unit."""
        light = self.lights[node]
        light.state, light.words, light.started = "running", "", perf_counter()

        def ended(output: Output | None) -> None:
            light.state, light.words = "done", "abstained" if output is None else brief(output)

        try:
            yield ended
        except (ProviderError, ReplyError, RowError) as error:
            light.state, light.words = "failed", f"{error.failure}: {error.message}"
            raise
        finally:
            light.took_s = perf_counter() - light.started
            self._ended(light)

    def heard(self, request: Request, piece: str) -> None:
        """Shows a piece of a reply that is streamed."""
        self.lights[request.node].words += piece


@contextmanager
def show_live_graph(lights: LiveGraph, *, quiet: bool) -> Iterator[None]:
    """Draws one row's lights in place while they change, on a terminal."""
    for light in lights.lights.values():
        light.state, light.words = "waiting", ""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    with Live(get_renderable=lambda: _drawn(lights, console.width), console=console, refresh_per_second=12):
        yield


def _written(light: UnitStatus) -> None:
    sys.stderr.write(f"{light.line()}\n")


def _drawn(lights: LiveGraph, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(_cut(light, width), style=_STYLES[light.state]) for light in lights.lights.values()))


def _cut(light: UnitStatus, width: int) -> str:
    """One line; of a reply that still comes its end is shown, of anything else the beginning."""
    room = max(8, width - len(replace(light, words="").line()) - 2)
    words = light.words.replace("\n", " ")
    if len(words) > room:
        words = f"…{words[1 - room :]}" if light.state == "running" else f"{words[: room - 1]}…"
    return replace(light, words=words).line()
