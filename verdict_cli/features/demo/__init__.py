"""A judge, its report and a comparison from recorded replies: `verdict demo`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "demo": PartSpec(
            "command.demo",
            "Show a judge, a report and a comparison, offline.",
            "Benchmarks and data",
        )
    }
}
