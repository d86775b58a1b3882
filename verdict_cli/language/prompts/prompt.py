"""Prompts with placeholders, compiled once and rendered for each row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

from pydantic import Discriminator, Tag
from typing_extensions import TypeAliasType

from verdict_cli.config_model import ConfigModel, Expected, displayed
from verdict_cli.language.expressions.paths import ExpressionPath, Resolve
from verdict_cli.language.extractors.answer_text import requested_tags
from verdict_cli.language.prompts.placeholders import (
    PLACEHOLDER_ROOTS,
    BraceText,
    Slot,
    brace_error,
    parse_placeholders,
    warning_of,
)
from verdict_cli.language.prompts.sections import (
    append_data_notice,
    boundary,
    dedented,
    row_content,
    split_sections,
    system_first,
    wrap_in_tags,
)

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


def _expected(given: Any) -> tuple[str, str]:
    return (
        f"expected a prompt, found {displayed(given)}",
        "write a text, `{file: prompts/judge.md}` or `{jinja: …}`",
    )


PromptKey = TypeAliasType(
    "PromptKey",
    Annotated[
        Annotated[str, Tag("<text>")]
        | Annotated[PromptFile, Tag("<file>")]
        | Annotated[JinjaPrompt, Tag("<jinja>")],
        Discriminator(_prompt_tag),
        Expected(_expected),
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
    marks: tuple[tuple[int, int], ...] = ()


class CompiledPrompt(Protocol):
    """A compiled prompt; `paths` are the paths in it, as written; `delimited` whether texts in it are; `braces` are the
    literal braces that may name a column of the data."""

    @property
    def paths(self) -> tuple[ExpressionPath, ...]: ...

    @property
    def delimited(self) -> bool: ...

    @property
    def braces(self) -> tuple[BraceText, ...]: ...

    @property
    def tags(self) -> frozenset[str]:
        """The names of tags for thoughts that the prompt asks for."""

    @property
    def tested(self) -> tuple[ExpressionPath, ...]:
        """The paths of which the prompt tests whether they are defined."""

    @property
    def shows_images(self) -> bool:
        """Whether the prompt has an image."""

    def with_columns(self, columns: tuple[str, ...] | None) -> CompiledPrompt:
        """The prompt, with tags made from these columns of the row (None: all of them)."""

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values; RowError when a value is missing or does not fit."""


@dataclass(frozen=True, slots=True)
class PlaceholderPrompt:
    """A prompt with placeholders; `sections` are (role, pieces), `slots` the placeholders in them, `delimited` as compiled.
    `columns` are those of the row that the pipeline's units use, None: all. `cuts` are where what it shares with other calls
    ends, for models that need that marked."""

    sections: tuple[tuple[str, tuple[str | Slot, ...]], ...]
    slots: tuple[Slot, ...]
    delimited: bool = False
    braces: tuple[BraceText, ...] = ()
    tags: frozenset[str] = frozenset()
    columns: tuple[str, ...] | None = ()
    cuts: tuple[Cut, ...] = ()
    plain: tuple[_PlainSection, ...] = field(init=False, compare=False)
    """The sections for values that are plain texts; empty for a prompt with an image."""
    inserts_all: bool = field(init=False, compare=False)
    """Whether all slots have values of the row."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "plain", () if self.shows_images else tuple(_plain_sections(self.sections))
        )
        object.__setattr__(self, "inserts_all", all(map(_is_of_row, self.slots)))

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

    def with_columns(self, columns: tuple[str, ...] | None) -> PlaceholderPrompt:
        """The prompt, with tags made from these columns."""
        return replace(self, columns=columns)

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values."""
        message = _message()
        filled = [slot.fill(values) for slot in self.slots]
        if (
            self.plain
            and self.inserts_all
            and not self.cuts
            and _ONLY_TEXTS.issuperset(map(type, filled))
        ):
            texts = tuple(filled)
            whole = [
                message(section.role, section.template % texts[section.first : section.last])
                for section in self.plain
            ]
            return Rendered(tuple(whole), texts)
        mark = (
            boundary(filled, row_content(values.get("source") or {}, self.columns))
            if self.delimited
            else ""
        )
        rest = iter(filled)
        inserted: list[str] = []
        messages = []
        for role, parts in self.sections:
            content = ""
            images: tuple[tuple[int, str], ...] = ()
            for part in parts:
                if isinstance(part, str):
                    content += part
                    continue
                text = next(rest)
                if part.image:
                    images += ((len(content), text),)
                    continue
                content += wrap_in_tags(text, mark) if mark else text
                if type(text) is not str:
                    images += tuple((len(content), url) for url in getattr(text, "images", ()))
                if _is_of_row(part):
                    inserted.append(str(text))
            messages.append(message(role, content, images))
        marks = self._marks(filled, mark) if self.cuts else ()
        return Rendered(append_data_notice(messages, mark), tuple(inserted), marks)

    def _marks(self, filled: Sequence[str], mark: str) -> tuple[tuple[int, int], ...]:
        """The message and the position in it of each cut; the end of a message for the start of the next one."""
        texts = iter(filled)
        lengths = []
        for _, parts in self.sections:
            own = [0]
            for part in parts:
                text = part if isinstance(part, str) else next(texts)
                if not isinstance(part, str):
                    text = "" if part.image else wrap_in_tags(text, mark) if mark else text
                own.append(own[-1] + len(text))
            lengths.append(own)
        marks = []
        for section, piece in self.cuts:
            if section >= len(lengths):
                marks.append((-1, -1))
                continue
            at = lengths[section][piece]
            if at or section:
                marks.append((section, at) if at else (section - 1, lengths[section - 1][-1]))
        return tuple(dict.fromkeys(marks))


_ONLY_TEXTS = frozenset({str})


class _PlainSection(NamedTuple):
    """A section as a template for `%`, and the range of its slots in the prompt."""

    role: str
    template: str
    first: int
    last: int


def _plain_sections(
    sections: Sequence[tuple[str, tuple[str | Slot, ...]]],
) -> Iterator[_PlainSection]:
    last = 0
    for role, parts in sections:
        first = last
        last += sum(not isinstance(part, str) for part in parts)
        pieces = [part.replace("%", "%%") if isinstance(part, str) else "%s" for part in parts]
        yield _PlainSection(role, "".join(pieces), first, last)


def _is_of_row(slot: Slot) -> bool:
    """Whether the slot's value is one of the row, and not a setting of the unit or the number of an entry."""
    return slot.paths[0][0] not in ("unit", "index")


@cache
def _message() -> type[Message]:
    """The class, imported on first use: `verdict validate` needs none."""
    from verdict_cli.messages import Message

    return Message


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
    text = dedented(text)
    roots = (*PLACEHOLDER_ROOTS, *entries)
    braces: list[BraceText] = []

    def brace(text: BraceText) -> None:
        if text.kind == "root":
            problem(*brace_error(text))
            return
        if text.kind == "path":
            warning(*warning_of(text, roots))
        braces.append(text)

    sections = tuple(
        (role, parse_placeholders(body, resolve, problem, delimit, roots, brace))
        for role, body in system_first(split_sections(text))
    )
    slots = tuple(part for _, parts in sections for part in parts if isinstance(part, Slot))
    return PlaceholderPrompt(
        sections, slots, delimit, tuple(dict.fromkeys(braces)), requested_tags(text)
    )
