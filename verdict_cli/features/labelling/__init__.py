"""Draw rows of a run for people to label: `verdict queue`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "queue": PartSpec(
            "command.queue", "Draw rows of a run for people to label.", "Study a judge"
        )
    }
}
