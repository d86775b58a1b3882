"""Runs in a browser: `verdict view`."""

from verdict_cli.registry import Entry

PARTS = {"commands": {"view": Entry("command.view", "Show runs in a browser.", "Commands", before="compare")}}
