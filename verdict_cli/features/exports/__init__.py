"""The scores of a run in the forms of other tools: `verdict export`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "export": PartSpec(
            "command.export", "Write the scores of a run for other tools.", "Benchmarks and data"
        )
    }
}
