"""Logs of other tools as datasets: `verdict import`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "import": PartSpec(
            "command.import_", "Convert logs of other tools to a dataset.", "Benchmarks and data"
        )
    }
}
