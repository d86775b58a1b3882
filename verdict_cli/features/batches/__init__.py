"""Calls sent through providers' batch interfaces: `--batch`, `batch` of a model, `verdict batch`, the report's section."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "batch": PartSpec(
            "command.app",
            "Show, cancel or collect the batches of a run.",
            "Maintenance",
            before="report",
        )
    },
    "sections": {"Batches": PartSpec("section.batch_sections", before="Failed rows")},
}
