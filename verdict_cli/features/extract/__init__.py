"""Read a run's recorded replies with other extractors: `verdict extract`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "extract": Entry("command.extract", "Read a run's recorded replies with other extractors.", "Study a judge")
    }
}
