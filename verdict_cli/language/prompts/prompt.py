"""Prompts with placeholders, compiled once and rendered for each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

from pydantic import Discriminator, Tag

from verdict_cli.config_model import ConfigModel
from verdict_cli.language.expressions.paths import ExpressionPath, Resolve
from verdict_cli.language.prompts.delimit import append_data_notice, boundary, wrap_in_tags
from verdict_cli.language.prompts.placeholders import (
    PLACEHOLDER_ROOTS,
    Slot,
    bare_names,
    lookalikes,
    parse_placeholders,
)
from verdict_cli.language.prompts.sections import dedented, split_sections

if TYPE_CHECKING:
    from verdict_cli.messages import Message


class PromptFile(ConfigModel):
    """A prompt in a file of its own."""

    file: str
    """Path of the text file, relative to the pipeline file."""


class JinjaPrompt(ConfigModel):
    """A prompt rendered by Jinja2, for loops and conditions."""

    jinja: str
    """The Jinja2 template, rendered in a sandbox with strict undefined."""


def _prompt_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, PromptFile) or (isinstance(value, dict) and "file" in value):
        return "<file>"
    return "<jinja>" if isinstance(value, JinjaPrompt | dict) else None


PromptKey = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[PromptFile, Tag("<file>")] | Annotated[JinjaPrompt, Tag("<jinja>")],
    Discriminator(_prompt_tag),
]
"""A prompt in a pipeline: a text, `{file: …}` or `{jinja: …}`."""


class Rendered(NamedTuple):
    """A row's messages, and the row's values that were inserted into them, in order."""

    messages: tuple[Message, ...]
    inserted: tuple[str, ...]


class CompiledPrompt(Protocol):
    """A compiled prompt; `paths` are the paths in it, as written; `delimited` whether texts in it are; `bare` are
    (as written, name) of the literal braces around a bare name."""

    @property
    def paths(self) -> tuple[ExpressionPath, ...]: ...

    @property
    def delimited(self) -> bool: ...

    @property
    def bare(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def tested(self) -> tuple[ExpressionPath, ...]:
        """The paths of which the prompt tests whether they are defined."""

    @property
    def shows_images(self) -> bool:
        """Whether the prompt has an image."""

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values; RowError when a value is missing or does not fit."""


@dataclass(frozen=True, slots=True)
class PlaceholderPrompt:
    """A prompt with placeholders; `sections` are (role, pieces), `slots` the placeholders in them, `delimited` as compiled."""

    sections: tuple[tuple[str, tuple[str | Slot, ...]], ...]
    slots: tuple[Slot, ...]
    delimited: bool = False
    bare: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> tuple[ExpressionPath, ...]:
        """The written paths."""
        return tuple(slot.written for slot in self.slots)

    @property
    def tested(self) -> tuple[ExpressionPath, ...]:
        """Empty: a placeholder tests nothing."""
        return ()

    @property
    def shows_images(self) -> bool:
        """Whether the prompt has an image."""
        return any(slot.image for slot in self.slots)

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values."""
        message = _message()
        filled = [slot.fill(values) for slot in self.slots]
        mark = boundary(filled) if self.delimited else ""
        texts = iter(filled)
        inserted: list[str] = []
        messages = []
        for role, parts in self.sections:
            content = ""
            images: tuple[tuple[int, str], ...] = ()
            for part in parts:
                if isinstance(part, str):
                    content += part
                    continue
                text = next(texts)
                if part.image:
                    images += ((len(content), text),)
                    continue
                content += wrap_in_tags(text, mark) if mark else text
                if type(text) is not str:
                    images += tuple((len(content), url) for url in getattr(text, "images", ()))
                if part.paths[0][0] not in ("unit", "index"):
                    inserted.append(str(text))
            messages.append(message(role, content, images))
        return Rendered(append_data_notice(messages, mark), tuple(inserted))


@cache
def _message() -> type[Message]:
    """The class, imported on first use: `verdict validate` needs none."""
    from verdict_cli.messages import Message

    return Message


Tell = Callable[[str, str], None]
"""Reports (message, hint) of a problem."""


def compile_prompt(
    text: str, resolve: Resolve, problem: Tell, warning: Tell, delimit: bool = False, entries: Collection[str] = ()
) -> PlaceholderPrompt:
    """The prompt with placeholders, each path resolved; with ``delimit``, a boundary around each text by others.

    ``entries`` are roots beside those that every prompt has.
    """
    text = dedented(text)
    for seen, root in lookalikes(text) if not entries else ():
        warning(f"{seen} is literal text", f"did you mean {{{root}…}}?")
    roots = (*PLACEHOLDER_ROOTS, *entries)
    sections = tuple(
        (role, parse_placeholders(body, resolve, problem, delimit, roots)) for role, body in split_sections(text)
    )
    slots = tuple(part for _, parts in sections for part in parts if isinstance(part, Slot))
    return PlaceholderPrompt(sections, slots, delimit, bare_names(text, roots))
