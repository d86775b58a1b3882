"""How a pipeline file spells a prompt."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from verdict_cli.keys import Keys


class PromptFile(Keys):
    """A prompt that stands in a file of its own."""

    file: str
    """Path of the text file, relative to the pipeline file."""


class JinjaPrompt(Keys):
    """A prompt rendered by Jinja2, for loops and conditions."""

    jinja: str
    """The Jinja2 template, rendered in a sandbox with strict undefined."""


def _spelling(value: Any) -> str | None:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, PromptFile) or (isinstance(value, dict) and "file" in value):
        return "<file>"
    return "<jinja>" if isinstance(value, JinjaPrompt | dict) else None


PromptKey = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[PromptFile, Tag("<file>")]
    | Annotated[JinjaPrompt, Tag("<jinja>")],
    Discriminator(_spelling),
]
"""How a pipeline spells a prompt: a text, `{file: …}` or `{jinja: …}`."""
