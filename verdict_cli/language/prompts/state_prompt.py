"""A prompt for a decision model: the instructions of a question, and the state that it is about.

With `@system`, its text is the instructions, and the rest is the state. Without it, the author's text is the instructions, with the
name of a field of the state for each value of the row, so that no text of a row is an instruction and all rows are asked alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.language.expressions.paths import ExpressionPath, follow
from verdict_cli.language.prompts.placeholders import Slot
from verdict_cli.language.prompts.prompt import CompiledPrompt, PlaceholderPrompt
from verdict_cli.language.prompts.sections import (
    Delimited,
    boundary,
    data_notice,
    row_content,
    wrap_in_tags,
)
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

    def render(self, values: Mapping[str, Any], examples: str = "") -> State:
        """The instructions and the state for these values. RowError when a value is missing or does not fit."""
        if isinstance(self.prompt, PlaceholderPrompt):
            parts = _Parts(self.prompt, values)
            state = self._sections(parts) if self.names is None else self._fields(parts, self.names)
        else:
            rendered = self.prompt.render(values)
            system = [message.content for message in rendered.messages if message.role == "system"]
            others = tuple(message for message in rendered.messages if message.role != "system")
            state = State("\n\n".join(system), others, rendered.inserted, False)
        return (
            state._replace(instructions=f"{state.instructions}\n\n{examples}")
            if examples
            else state
        )

    def _sections(self, parts: _Parts) -> State:
        instructions, messages = [], []
        for role, pieces in parts.prompt.sections:
            message = parts.message(role, pieces)
            if role == "system":
                instructions.append(message.content)
            else:
                messages.append(message)
        return State(
            parts.with_notice("\n\n".join(instructions)), tuple(messages), parts.inserted(), False
        )

    def _fields(self, parts: _Parts, names: Mapping[Slot, str]) -> State:
        fields: dict[str, Any] = {}
        images: list[str] = []
        texts = []
        for _, pieces in parts.prompt.sections:
            text = ""
            for piece in pieces:
                if isinstance(piece, str):
                    text += piece
                elif piece.image:
                    images.append(parts.filled[piece])
                    text += f"[image {len(images)}]"
                elif piece in names:
                    fields[names[piece]] = parts.field(piece)
                    text += f"`{names[piece]}`"
                else:
                    text += parts.text(piece)
            texts.append(text)
        content = _json(fields)
        shown = tuple((len(content), url) for url in images)
        return State(
            parts.with_notice("\n\n".join(texts)),
            (Message("user", content, shown),),
            parts.inserted(),
            True,
        )


class _Parts:
    """The values of a prompt's placeholders at a row."""

    def __init__(self, prompt: PlaceholderPrompt, values: Mapping[str, Any]) -> None:
        self.prompt = prompt
        self._values = values
        self.filled = {slot: slot.fill(values) for slot in prompt.slots}
        content = row_content(values.get("source") or {}, prompt.columns)
        self.mark = boundary(self.filled.values(), content) if prompt.delimited else ""

    def text(self, slot: Slot) -> str:
        """The text of a placeholder, between tags where it is delimited."""
        text = self.filled[slot]
        return wrap_in_tags(text, self.mark) if self.mark else text

    def field(self, slot: Slot) -> Any:
        """The value of a field of the state: as it is in the row, or as a text where the prompt says how it is written."""
        text = self.text(slot)
        if (
            isinstance(self.filled[slot], Delimited)
            or slot.many
            or slot.spec
            or slot.filters
            or slot.numbered
        ):
            return str(text)
        value = follow(slot.paths[0], self._values)
        is_plain = isinstance(value, str | int | float) or not looks_like_conversation(value)
        return value if is_plain and not getattr(self.filled[slot], "images", ()) else str(text)

    def message(self, role: str, pieces: Sequence[str | Slot]) -> Message:
        """A section with its values."""
        content = ""
        images: tuple[tuple[int, str], ...] = ()
        for piece in pieces:
            if isinstance(piece, str):
                content += piece
            elif piece.image:
                images += ((len(content), self.filled[piece]),)
            else:
                content += self.text(piece)
                images += tuple(
                    (len(content), url) for url in getattr(self.filled[piece], "images", ())
                )
        return Message(role, content, images)

    def with_notice(self, instructions: str) -> str:
        """The instructions with what they say of the tags."""
        return f"{instructions}\n\n{data_notice(self.mark)}" if self.mark else instructions

    def inserted(self) -> tuple[str, ...]:
        return tuple(str(self.filled[slot]) for slot in self.prompt.slots if not slot.image)


def _last_name(path: ExpressionPath) -> str:
    return next(part for part in reversed(path) if isinstance(part, str))


def _free_name(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    return next(
        other for number in range(2, len(taken) + 3) if (other := f"{name}_{number}") not in taken
    )


def _json(fields: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(fields, default=_as_json, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as fault:
        raise RowError(f"the state cannot be written as JSON: {fault}") from None


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not a JSON value")
