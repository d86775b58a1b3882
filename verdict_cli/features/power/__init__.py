"""How many rows or labels an interval or a comparison needs: `verdict plan`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "plan": PartSpec(
            "command.plan",
            "Compute how many rows or labels an interval needs.",
            "Check a pipeline (no model is called)",
        )
    }
}
