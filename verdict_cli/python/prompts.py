"""Prompts as Python spells them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.language.prompts.sections import dedented


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: what `.prompt("…")` takes, or a text in a file, or a Jinja2 template."""

    key: Any

    @classmethod
    def from_template(cls, text: str) -> Prompt:
        """The prompt with placeholders such as `{source.question}`; common indentation is removed."""
        if not isinstance(text, str):
            raise UsageError(f"a prompt is a text, not {text!r:.80}", hint="write `.prompt('…{source.question}…')`")
        return cls(dedented(text))

    @classmethod
    def from_file(cls, path: str | Path) -> Prompt:
        """The text of a file, read when the pipeline is checked."""
        return cls({"file": str(Path(path).absolute())})

    @classmethod
    def from_jinja(cls, text: str) -> Prompt:
        """A Jinja2 template, rendered in the sandbox with strict undefined."""
        return cls({"jinja": text})


def prompt_key(prompt: str | Prompt) -> Any:
    """The prompt as a pipeline file writes it."""
    return prompt.key if isinstance(prompt, Prompt) else Prompt.from_template(prompt).key
