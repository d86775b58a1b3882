"""Read a run's recorded replies with other extractors: `verdict extract`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "extract": PartSpec("command.extract", "Read a run's recorded replies with other extractors.", "Study a judge")
    }
}
