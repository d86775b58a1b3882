"""Improve a unit of a judge against human labels: `verdict align`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {"align": Entry("command.align", "Improve a unit of a judge against human labels.", "Study a judge")}
}
