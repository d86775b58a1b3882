"""Runs in a browser: `verdict view`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "view": PartSpec("command.view", "Show runs in a browser.", "Commands", before="compare")
    }
}
