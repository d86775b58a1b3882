"""Test a judge for bias and prompt-injection robustness: `verdict audit`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "audit": PartSpec(
            "command.audit",
            "Test a judge for bias and prompt-injection robustness.",
            "Study a judge",
        )
    }
}
