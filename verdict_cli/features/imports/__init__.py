"""Logs of other tools as datasets, and their configs as pipelines: `verdict import`, `verdict init --from`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "import": Entry("command.import_", "Convert logs of other tools to a dataset.", "Benchmarks and data")
    },
    "translators": {
        "promptfoo": Entry("foreign_judges.foreign_judges"),
        "deepeval": Entry("foreign_judges.foreign_judges"),
    },
}
