"""Prompts with placeholders, compiled once and rendered for each row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from pydantic import Discriminator, Tag
from typing_extensions import TypeAliasType

from verdict_cli.config_model import ConfigModel, Expected, MessageAndHint, display_value
from verdict_cli.language.expressions.paths import ExpressionPaths, Resolve, RowValues
from verdict_cli.language.extractors.answer_text import requested_tags
from verdict_cli.language.prompts.placeholders import (
    PLACEHOLDER_ROOTS,
    BraceText,
    Slot,
    brace_error,
    brace_warning,
    parse_placeholders,
)
from verdict_cli.language.prompts.sections import (
    append_data_notice,
    boundary,
    dedent,
    row_content,
    split_sections,
    system_first,
    wrap_in_tags,
)
from verdict_cli.messages import Marks, Message


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
    keys = value if isinstance(value, dict) else ()
    if isinstance(value, PromptFile) or "file" in keys:
        return "<file>"
    return "<jinja>" if isinstance(value, JinjaPrompt) or "jinja" in keys else None


def _unquoted_text(value: Any) -> str | None:
    """The prompt, such as `{source.answer}`, that YAML read as a mapping of names without values; None for another value."""
    is_text = isinstance(value, dict) and value and all(item is None for item in value.values())
    return "{" + ", ".join(map(str, value)) + "}" if is_text else None


def _expected(value: Any) -> MessageAndHint:
    text = _unquoted_text(value)
    if text is not None:
        hint = f"put the prompt in quotes, or under `|`: prompt: '{text}'"
        return "YAML reads {…} as a mapping", hint
    return (
        f"expected a prompt, found {display_value(value)}",
        "write a text, `{file: prompts/judge.md}` or `{jinja: …}`",
    )


PromptKey = TypeAliasType(
    "PromptKey",
    Annotated[
        Annotated[str, Tag("<text>")]
        | Annotated[PromptFile, Tag("<file>")]
        | Annotated[JinjaPrompt, Tag("<jinja>")],
        Discriminator(_prompt_tag),
        Expected(_expected, _unquoted_text),
    ],
)
"""A prompt in a pipeline: a text, `{file: …}` or `{jinja: …}`."""


class Cut(NamedTuple):
    """A position in a prompt: its section, and the number of pieces of the section before it."""

    section: int
    piece: int


END = Cut(sys.maxsize, 0)
"""The end of the whole request, behind what the unit adds to its prompt."""


class Rendered(NamedTuple):
    """A row's messages, and the row's values that were inserted into them, in order; ``marks`` are as in a request."""

    messages: tuple[Message, ...]
    inserted: tuple[str, ...]
    marks: Marks = ()


Pieces = tuple[str | Slot, ...]
"""Literal texts and placeholders, in order."""
Section = tuple[str, Pieces]
"""A role and what its message is made of."""


class CompiledPrompt(Struct, frozen=True, kw_only=True):
    """A compiled prompt; `delimited` is whether texts in it are, `braces` are the literal braces that may name a column of
    the data, `tags` the names of tags for thoughts that it asks for. `columns` are those of the row that the pipeline's
    units use, from which tags are made; None: all."""

    delimited: bool = False
    braces: tuple[BraceText, ...] = ()
    tags: frozenset[str] = frozenset()
    columns: tuple[str, ...] | None = ()

    @property
    def paths(self) -> ExpressionPaths:
        """The paths in it, as written."""
        raise NotImplementedError

    @property
    def tested(self) -> ExpressionPaths:
        """The paths of which the prompt tests whether they are defined."""
        return ()

    @property
    def shows_images(self) -> bool:
        """Whether the prompt has an image."""
        return False

    def render(self, values: RowValues) -> Rendered:
        """The messages for these values; RowError when a value is missing or does not fit."""
        raise NotImplementedError


class PlaceholderPrompt(CompiledPrompt, frozen=True):
    """A prompt with placeholders; `sections` are (role, pieces), `slots` the placeholders in them. `cuts` are where what it
    shares with other calls ends, for models that need that marked."""

    sections: tuple[Section, ...]
    slots: tuple[Slot, ...]
    cuts: tuple[Cut, ...] = ()

    @property
    def paths(self) -> ExpressionPaths:
        """The written paths."""
        return tuple(slot.written for slot in self.slots)

    @property
    def shows_images(self) -> bool:
        return any(slot.image for slot in self.slots)

    def render(self, values: RowValues) -> Rendered:
        """The messages for these values."""
        parts = FilledPrompt(self, values)
        messages = [parts.message(role, pieces) for role, pieces in self.sections]
        whole = append_data_notice(messages, parts.mark)
        return Rendered(whole, parts.inserted(), parts.marks() if self.cuts else ())


class FilledPrompt:
    """A prompt with the texts of its placeholders at a row."""

    def __init__(self, prompt: PlaceholderPrompt, values: RowValues) -> None:
        filled = [slot.fill(values) for slot in prompt.slots]
        self.prompt = prompt
        self.filled = dict(zip(prompt.slots, filled, strict=True))
        self.mark = ""
        if prompt.delimited:
            content = row_content(values.get("source") or {}, prompt.columns)
            self.mark = boundary(filled, content)

    def text(self, piece: str | Slot) -> str:
        """The text of a piece, between tags where it is delimited; an image has none."""
        if isinstance(piece, str):
            return piece
        if piece.image:
            return ""
        text = self.filled[piece]
        return wrap_in_tags(text, self.mark) if self.mark else text

    def message(self, role: str, pieces: Pieces) -> Message:
        """A section with its values."""
        content = ""
        images: list[tuple[int, str]] = []
        for piece in pieces:
            content += self.text(piece)
            if isinstance(piece, str):
                continue
            text = self.filled[piece]
            for url in (text,) if piece.image else getattr(text, "images", ()):
                images.append((len(content), url))
        return Message(role, content, tuple(images))

    def inserted(self) -> tuple[str, ...]:
        """The texts of the row in the prompt, in order."""
        slots = (slot for slot in self.prompt.slots if slot.is_of_row and not slot.image)
        return tuple(str(self.filled[slot]) for slot in slots)

    def marks(self) -> Marks:
        """The message and the position in it of each cut; the end of a message for the start of the next one."""
        lengths = [
            list(accumulate((len(self.text(piece)) for piece in pieces), initial=0))
            for _, pieces in self.prompt.sections
        ]
        marks = []
        for section, piece in self.prompt.cuts:
            if section >= len(lengths):
                marks.append((-1, -1))
            elif offset := lengths[section][piece]:
                marks.append((section, offset))
            elif section:
                marks.append((section - 1, lengths[section - 1][-1]))
        return tuple(dict.fromkeys(marks))


Tell = Callable[[str, str], None]
"""Reports (message, hint) of a problem."""


def compile_prompt(
    text: str,
    resolve: Resolve,
    problem: Tell,
    warning: Tell,
    delimit: bool = False,
    entries: Collection[str] = (),
) -> PlaceholderPrompt:
    """The prompt with placeholders, each path resolved; with ``delimit``, a boundary around each text by others.

    ``entries`` are roots beside those that every prompt has.
    """
    text = dedent(text)
    roots = (*PLACEHOLDER_ROOTS, *entries)
    braces: list[BraceText] = []

    def brace(text: BraceText) -> None:
        if text.kind == "root":
            problem(*brace_error(text))
            return
        if text.kind == "path":
            warning(*brace_warning(text, roots))
        braces.append(text)

    sections = tuple(
        (role, parse_placeholders(body, resolve, problem, delimit, roots, brace))
        for role, body in system_first(split_sections(text))
    )
    slots = tuple(part for _, parts in sections for part in parts if isinstance(part, Slot))
    return PlaceholderPrompt(
        sections,
        slots,
        delimited=delimit,
        braces=tuple(dict.fromkeys(braces)),
        tags=requested_tags(text),
    )
