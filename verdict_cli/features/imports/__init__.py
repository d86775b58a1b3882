"""Logs of other tools as datasets, and their configs as pipelines: `verdict import`, `verdict init --from`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "import": PartSpec("command.import_", "Convert logs of other tools to a dataset.", "Benchmarks and data")
    },
    "translators": {
        "promptfoo": PartSpec("translate.foreign_judges"),
        "deepeval": PartSpec("translate.foreign_judges"),
    },
}
