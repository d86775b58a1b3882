"""A prompt for a decision model: the instructions of a question, and the state that it is about.

With `@system`, its text is the instructions, and the rest is the state. Without it, the author's text is the instructions, with the
name of a field of the state for each value of the row, so that no text of a row is an instruction and all rows are asked alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.language.expressions.paths import ExpressionPath, RowValues, follow
from verdict_cli.language.expressions.value_text import compact_json
from verdict_cli.language.fields.types import Values
from verdict_cli.language.prompts.placeholders import Slot
from verdict_cli.language.prompts.prompt import CompiledPrompt, FilledPrompt, PlaceholderPrompt
from verdict_cli.language.prompts.sections import Delimited, data_notice
from verdict_cli.messages import Message


class State(NamedTuple):
    """A question's instructions, the messages of the state, and the row's values in both. ``has_fields``: the state is one JSON
    object."""

    instructions: str
    messages: tuple[Message, ...]
    inserted: tuple[str, ...]
    has_fields: bool


class StatePrompt(Struct, frozen=True):
    """A compiled prompt, split. ``names`` are the fields of the state by their placeholders; None where it has a system section."""

    prompt: CompiledPrompt
    names: Mapping[Slot, str] | None

    @classmethod
    def of(
        cls,
        prompt: CompiledPrompt,
        is_inline: Callable[[ExpressionPath], bool],
        labels: Mapping[ExpressionPath, str],
    ) -> StatePrompt:
        """The prompt split. Values that are ``is_inline`` stay in the instructions; ``labels`` name fields that have names already."""
        if not isinstance(prompt, PlaceholderPrompt) or any(
            role == "system" for role, _ in prompt.sections
        ):
            return cls(prompt, None)
        names: dict[Slot, str] = {}
        for slot in prompt.slots:
            if slot not in names and not is_inline(slot.written):
                names[slot] = _free_name(
                    labels.get(slot.written) or _last_name(slot.written), names.values()
                )
        return cls(prompt, names)

    def render(self, values: RowValues, examples: str = "") -> State:
        """The instructions and the state for these values. RowError when a value is missing or does not fit."""
        if isinstance(self.prompt, PlaceholderPrompt):
            parts = FilledPrompt(self.prompt, values)
            state = _sections(parts) if self.names is None else _fields(parts, self.names, values)
        else:
            rendered = self.prompt.render(values)
            instructions, turns = _split(rendered.messages)
            state = State("\n\n".join(instructions), turns, rendered.inserted, False)
        if examples:
            state = state._replace(instructions=f"{state.instructions}\n\n{examples}")
        return state


def _split(messages: Sequence[Message]) -> tuple[list[str], tuple[Message, ...]]:
    """The texts of the system, and the other messages."""
    instructions = [message.content for message in messages if message.role == "system"]
    return instructions, tuple(message for message in messages if message.role != "system")


def _sections(parts: FilledPrompt) -> State:
    messages = [parts.message(role, pieces) for role, pieces in parts.prompt.sections]
    instructions, turns = _split(messages)
    return State(_with_notice(parts, instructions), turns, parts.inserted(), False)


def _fields(parts: FilledPrompt, names: Mapping[Slot, str], values: RowValues) -> State:
    fields: Values = {}
    images: list[str] = []
    texts = []
    for _, pieces in parts.prompt.sections:
        text = ""
        for piece in pieces:
            if isinstance(piece, Slot) and piece.image:
                images.append(parts.filled[piece])
                text += f"[image {len(images)}]"
            elif isinstance(piece, Slot) and piece in names:
                fields[names[piece]] = _field(parts, piece, values)
                text += f"`{names[piece]}`"
            else:
                text += parts.text(piece)
        texts.append(text)
    content = compact_json(fields)
    message = Message("user", content, tuple((len(content), url) for url in images))
    return State(_with_notice(parts, texts), (message,), parts.inserted(), True)


def _field(parts: FilledPrompt, slot: Slot, values: RowValues) -> Any:
    """The value of a field of the state: as it is in the row, or as a text where the prompt says how it is written."""
    filled = parts.filled[slot]
    if not isinstance(filled, Delimited) and not slot.has_form:
        value = follow(slot.paths[0], values)
        is_plain = isinstance(value, str | int | float) or not looks_like_conversation(value)
        if is_plain and not getattr(filled, "images", ()):
            return value
    return str(parts.text(slot))


def _with_notice(parts: FilledPrompt, texts: Sequence[str]) -> str:
    """The instructions with what they say of the tags."""
    notice = [data_notice(parts.mark)] if parts.mark else []
    return "\n\n".join([*texts, *notice])


def _last_name(path: ExpressionPath) -> str:
    return next(part for part in reversed(path) if isinstance(part, str))


def _free_name(name: str, names: Collection[str]) -> str:
    if name not in names:
        return name
    return next(
        candidate
        for number in range(2, len(names) + 3)
        if (candidate := f"{name}_{number}") not in names
    )
