"""Calls sent through providers' batch interfaces: `--batch`, `batch` of a model, `verdict batch`, the report's section."""

from verdict_cli.registry import PartSpec

PARTS = {
    "file_keys": {"Model.batch": PartSpec("batch_keys.BatchKey")},
    "run_hooks": {"batches": PartSpec("run_hooks.BatchOptions")},
    "run_options": {"batches": PartSpec("run_options.BatchRunOptions")},
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
