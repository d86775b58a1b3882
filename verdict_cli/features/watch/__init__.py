"""Drift of a judge on frozen rows: `verdict watch`."""

from verdict_cli.registry import Entry

PARTS = {"commands": {"watch": Entry("command.watch", "Detect drift of a judge on frozen rows.", "Study a judge")}}
