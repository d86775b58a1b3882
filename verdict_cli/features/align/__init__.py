"""Improve a unit of a judge against human labels: `verdict align`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "align": PartSpec(
            "command.align", "Improve a unit of a judge against human labels.", "Study a judge"
        )
    }
}
