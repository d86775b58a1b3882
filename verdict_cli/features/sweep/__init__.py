"""Variants of a pipeline compared by metric, cost and latency: `verdict sweep`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "sweep": PartSpec(
            "command.sweep",
            "Compare variants of a pipeline: metric, cost, latency.",
            "Study a judge",
        )
    },
}
