"""A failure's hint stands on a line of its own, and no other control character gets through."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from verdict_cli.report.document import Failures
from verdict_cli.report.formatting import message_lines
from verdict_cli.report.renderers.terminal import _failures
from verdict_cli.report.run_notes import UNAVAILABLE_HINT


def printed(reasons: dict[str, str]) -> list[str]:
    console = Console(file=StringIO(), width=200)
    for part in _failures(Failures([(kind, 1) for kind in reasons], 4, reasons, False), ""):
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_hint_has_its_own_line():
    lines = printed({"cut-off": "the reply ends within its reasoning\n    raise `max_tokens`"})
    assert lines[1:] == ["cut-off: the reply ends within its reasoning", "  raise `max_tokens`"]


def test_an_outage_has_its_own_hint_or_the_general_one():
    assert f"  {UNAVAILABLE_HINT}" in printed({"unavailable": "no reply from host"})
    assert f"  {UNAVAILABLE_HINT}" not in printed({"unavailable": "a page\n    check api_base"})


def test_other_control_characters_are_shown_as_escapes():
    assert message_lines("a\x1b[31m\r\n  b\tc") == ["a\\x1b[31m", "b\\tc"]
