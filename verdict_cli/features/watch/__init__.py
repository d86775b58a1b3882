"""Drift of a judge on frozen rows: `verdict watch`."""

from verdict_cli.registry import PartSpec

PARTS = {"commands": {"watch": PartSpec("command.watch", "Detect drift of a judge on frozen rows.", "Study a judge")}}
