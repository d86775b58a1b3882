"""Prompts: what a pipeline file writes, and its compiled form that renders a row's messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Discriminator, Tag

from verdict_cli.errors import RowError
from verdict_cli.expressions import ExpressionError, Path, Resolve
from verdict_cli.keys import Keys
from verdict_cli.templates.placeholders import Slot, lookalikes, parse
from verdict_cli.templates.sections import dedented, split
from verdict_cli.values import Message


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


@dataclass(frozen=True, slots=True)
class Rendered:
    """A row's messages, and the row's values that were inserted into them, in order."""

    messages: tuple[Message, ...]
    inserted: tuple[str, ...]


class Prompt(Protocol):
    """A compiled prompt."""

    paths: tuple[Path, ...]

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values; RowError when a value is missing or does not fit."""


@dataclass(frozen=True, slots=True)
class PlaceholderPrompt:
    """A prompt with placeholders; `sections` are (role, pieces), `paths` the written paths."""

    sections: tuple[tuple[str, tuple[str | Slot, ...]], ...]
    paths: tuple[Path, ...]

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values."""
        inserted: list[str] = []
        messages = []
        for role, parts in self.sections:
            pieces = []
            for part in parts:
                if isinstance(part, str):
                    pieces.append(part)
                else:
                    text = part.fill(values)
                    pieces.append(text)
                    if part.paths[0][0] != "unit":
                        inserted.append(text)
            messages.append(Message(role, "".join(pieces)))
        return Rendered(tuple(messages), tuple(inserted))


@dataclass(frozen=True)
class JinjaTemplate:
    """A compiled Jinja2 prompt. `boundary` stands for the markers, so that none in the data counts."""

    template: Any
    boundary: str
    roles: tuple[str, ...]
    paths: tuple[Path, ...]
    faults: tuple[type[Exception], ...]

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values."""
        try:
            text = self.template.render(dict(values))
        except RowError:
            raise
        except self.faults as fault:
            raise RowError(f"the jinja prompt: {fault}") from None
        bodies = text.split(self.boundary)
        return Rendered(
            tuple(Message(role, body.strip()) for role, body in zip(self.roles, bodies, strict=True)), ()
        )


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


def compile_jinja(text: str, roots: tuple[str, ...], resolve: Resolve, problem: Tell) -> JinjaTemplate | None:
    """The Jinja2 prompt; None, and `problem` told, when it is not one."""
    from jinja2 import TemplateSyntaxError

    from verdict_cli.expressions.expression import FAULTS
    from verdict_cli.expressions.sandbox import environment
    from verdict_cli.expressions.tree import assigned_names, rewrite

    boundary = secrets.token_hex(16)
    sections = split(dedented(text))
    sandbox = environment()
    found: list[Path] = []
    try:
        tree = sandbox.parse(boundary.join(body for _, body in sections))
        rewrite(tree, resolve, roots, found, assigned_names(tree))
        template = sandbox.from_string(tree)
    except TemplateSyntaxError as error:
        problem(f"line {error.lineno} of the jinja prompt: {error.message}", "it is a Jinja2 template")
        return None
    except ExpressionError as error:
        problem(error.message, error.hint)
        return None
    return JinjaTemplate(template, boundary, tuple(role for role, _ in sections), tuple(found), FAULTS)
