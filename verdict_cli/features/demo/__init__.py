"""A judge, its report and a comparison from recorded replies: `verdict demo`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "demo": Entry("command.demo", "Show a judge, a report and a comparison, offline.", "Benchmarks and data")
    }
}
