"""Test a judge for bias and prompt-injection robustness: `verdict audit`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "audit": Entry("command.audit", "Test a judge for bias and prompt-injection robustness.", "Study a judge")
    }
}
