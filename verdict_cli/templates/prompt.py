"""Prompts with placeholders in their compiled form, which renders a row's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from verdict_cli.expressions import Path, Resolve
from verdict_cli.templates.placeholders import Slot, lookalikes, parse
from verdict_cli.templates.sections import dedented, split

if TYPE_CHECKING:
    from verdict_cli.values import Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A row's messages, and the row's values that were inserted into them, in order."""

    messages: tuple[Message, ...]
    inserted: tuple[str, ...]


class Prompt(Protocol):
    """A compiled prompt; `paths` are the paths that it names, as written."""

    @property
    def paths(self) -> tuple[Path, ...]: ...

    @property
    def shows_images(self) -> bool:
        """Whether a picture stands in the prompt."""

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values; RowError when a value is missing or does not fit."""


@dataclass(frozen=True, slots=True)
class PlaceholderPrompt:
    """A prompt with placeholders; `sections` are (role, pieces), `paths` the written paths."""

    sections: tuple[tuple[str, tuple[str | Slot, ...]], ...]
    paths: tuple[Path, ...]

    @property
    def shows_images(self) -> bool:
        """Whether a picture stands in the prompt."""
        return any(isinstance(part, Slot) and part.image for _, parts in self.sections for part in parts)

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values."""
        message = _message()
        inserted: list[str] = []
        messages = []
        for role, parts in self.sections:
            content = ""
            images = []
            for part in parts:
                if isinstance(part, str):
                    content += part
                elif part.image:
                    images.append((len(content), part.fill(values)))
                else:
                    text = part.fill(values)
                    content += text
                    if part.paths[0][0] != "unit":
                        inserted.append(text)
            messages.append(message(role, content, tuple(images)))
        return Rendered(tuple(messages), tuple(inserted))


@cache
def _message() -> type[Message]:
    """The class, imported only once there is a message to make."""
    from verdict_cli.values import Message

    return Message


Tell = Callable[[str, str], None]
"""Is told (message, hint) of each problem."""


def compile_prompt(text: str, resolve: Resolve, problem: Tell, warning: Tell) -> PlaceholderPrompt:
    """The prompt with placeholders, each path replaced by what it means."""
    text = dedented(text)
    for seen, root in lookalikes(text):
        warning(f"{seen} is literal text", f"did you mean {{{root}…}}?")
    sections = tuple((role, parse(body, resolve, problem)) for role, body in split(text))
    paths = tuple(part.written for _, parts in sections for part in parts if isinstance(part, Slot))
    return PlaceholderPrompt(sections, paths)
