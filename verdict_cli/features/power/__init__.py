"""How many rows or labels an interval or a comparison needs: `verdict plan`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "plan": Entry(
            "command.plan",
            "Compute how many rows or labels an interval needs.",
            "Check a pipeline (no model is called)",
        )
    }
}
