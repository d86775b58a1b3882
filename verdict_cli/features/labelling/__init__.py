"""Draw rows of a run for people to label: `verdict queue`."""

from verdict_cli.registry import Entry

PARTS = {"commands": {"queue": Entry("command.queue", "Draw rows of a run for people to label.", "Study a judge")}}
