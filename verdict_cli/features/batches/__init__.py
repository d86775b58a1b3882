"""Calls sent through providers' batch interfaces: `--batch`, `batch` of a model, `verdict batch`, the report's section."""

from verdict_cli.registry import PartSpec

PARTS = {
    "file_keys": {"Model.batch": PartSpec("batch_keys.BatchKey")},
    "run_hooks": {"batches": PartSpec("run_hooks.BatchOptions")},
    "sections": {"Batches": PartSpec("section.batch_sections", before="Failed rows")},
}
