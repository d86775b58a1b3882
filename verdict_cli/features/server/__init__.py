"""A judge over HTTP: `verdict serve`."""

from verdict_cli.registry import PartSpec

PARTS = {"commands": {"serve": PartSpec("command.serve", "Serve a judge over HTTP.", "Judge live")}}
