"""XSTest (Röttger et al., 2024): its prompts, or a model's completions with GPT-4's recorded labels."""

from __future__ import annotations

from pathlib import Path

from verdict_cli.benchmarks.importers.imported import Imported, Record, columns, no_file_of, records

_PROMPTS = ("id", "prompt", "type", "label", "focus", "note")
_COMPLETIONS = ("id", "type", "prompt", "completion", "final_label")


def xstest(path: Path) -> Imported:
    """Of prompts `id, prompt, type, label, focus, note`; `label` is safe or unsafe. Of completions
    `id, type, prompt, completion, final_label`, and GPT-4's raw labels as replies of a unit named `judge`.
    """
    found = columns(path)
    if {"id", "prompt", "type", "label"} <= found:
        return Imported(lambda: (_prompt(record) for record in records(path)))
    if {"id", "prompt", "completion", "final_label", "gpt4_label"} <= found:
        return Imported(
            lambda: (
                {name: record[name] for name in _COMPLETIONS if name in record} for record in records(path)
            ),
            lambda: (
                {"id": record["id"], "unit": "judge", "reply": record["gpt4_label"]}
                for record in records(path)
            ),
        )
    expected = "prompts have id, prompt, type, label; completions have id, prompt, completion, final_label, gpt4_label"
    raise no_file_of("XSTest", path, expected)


def _prompt(record: Record) -> Record:
    identity = record["id"]
    return {
        "id": int(identity) if str(identity).isdigit() else identity,
        **{name: record.get(name, "") for name in _PROMPTS[1:]},
    }
