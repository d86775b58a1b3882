"""Variants of a pipeline compared by metric, cost and latency: `verdict sweep`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "sweep": Entry("command.sweep", "Compare variants of a pipeline: metric, cost, latency.", "Study a judge")
    }
}
