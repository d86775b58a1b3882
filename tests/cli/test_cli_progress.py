"""The live display: what it says of the run and of each unit, and that it is plain where nobody watches."""

from __future__ import annotations

import io
import sys

import pytest

from verdict_cli.cli import progress as display
from verdict_cli.llm.middleware.rate_limit import Flow
from verdict_cli.run.progress import Progress


def at(done: int, units: dict[str, Flow]) -> Progress:
    return Progress(
        rows=10, done=done, failed=1, calls=20, recalled=0, waiting=3, running=2, cost_usd=0.5, elapsed_s=2.0, rate=5.0, left_s=1.0, units=units
    )  # fmt: skip


FLOWS = {"think": Flow(0, 0, 9, 0), "judge[0]": Flow(3, 2, 1200, 4)}


def test_each_unit_says_what_became_of_its_calls() -> None:
    assert display.progress_line(at(4, FLOWS)).startswith("rows 4/10 · failed 1 · calls 20 (2 running, 3 waiting)")
    assert display.unit_lines(at(4, FLOWS)) == [
        "  think     answered 9",
        "  judge[0]  answered 1,200 · failed 4 · running 2 · waiting for a limit 3",
    ]


def test_of_many_units_the_busy_ones_are_shown() -> None:
    flows = {f"u{place}": Flow(waiting=place) for place in range(20)}
    lines = display.unit_lines(at(4, flows))
    assert lines[0].startswith("  u12")
    assert lines[-1] == "  … 12 more units"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "moves"), [(io.StringIO, False), (Terminal, True)])
def test_only_a_terminal_is_drawn_upon(stream: type[io.StringIO], moves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := stream())
    monkeypatch.setenv("TERM", "xterm")
    with display.show_progress(quiet=False) as show:
        show(at(10, FLOWS | {"\x1b[31m": Flow()}))
    text = written.getvalue()
    assert "rows 10/10" in text
    assert "judge[0]  answered 1,200" in text
    assert ("\x1b[" in text) == moves
    assert "\x1b[31m" not in text


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO, False), (Terminal, True)])
def test_steps_are_shown_with_the_time_left_on_a_terminal_only(
    stream: type[io.StringIO], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", written := stream())
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(display, "monotonic", lambda: next(clock))
    with display.show_steps("fetching \x1b[31mx", "bytes") as show:
        show(1_000_000, 4_000_000)
        show(2_000_000, 4_000_000)
    assert ("MB · 20 s left" in written.getvalue()) == shown and "\x1b[31m" not in written.getvalue()
    assert shown or not written.getvalue()


def test_steps_without_a_known_end_count() -> None:
    assert display.steps_line("importing inspect", "rows", 1200, None, None) == "importing inspect: 1,200 rows"
    assert display.steps_line("reproducing", "cases", 3, 9, 61.0) == "reproducing: 3/9 cases · 1 min 1 s left"
