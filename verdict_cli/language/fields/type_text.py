"""The text of a type: `list[T]`, `T?` for a value that may be null, `{field: T}`, and names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from verdict_cli.errors import SpecError
from verdict_cli.language.fields.types import FieldType, OptionalType, RecordType, list_of

TYPES_HINT = (
    "types are `str`, `int`, `float`, `bool`, `image`, `conversation`, scales, `list[T]`, `{field: T}`, and `T?` for "
    "a value that may be null"
)
_SPECIAL = re.compile(r"[\[\]{}?]")
_NAME = re.compile(r"[^\s\[\]{}?,:\"']+")
_KEY = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^\s\[\]{}?,:\"']+))\s*:\s*")
_NOT_A_RECORD = re.compile(r"\{\s*[\"']?(?:enum|type)\b")
_PLAIN_FIELD = re.compile(r"[A-Za-z_][\w-]*")
_DEEPEST = 50


class TypeTextError(ValueError):
    """A text that is no type: what is wrong, and a hint."""

    def __init__(self, message: str, hint: str = TYPES_HINT) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_type_text(text: str) -> bool:
    """Whether the text is more than the name of a type."""
    return _SPECIAL.search(text) is not None


def parse_type(
    text: str, named: Callable[[str], FieldType], written: Callable[[dict[str, Any]], FieldType | None]
) -> FieldType:
    """The type that a text means. TypeTextError where it means none.

    `named` has the type of a name. `written` has that of a mapping such as `{enum: [a, b]}`, None where it is a record.
    """
    parser = _Parser(text, named, written)
    kind = parser.type()
    parser.expect_end()
    return kind


def type_text(key: Any) -> str:
    """The text of a type that is given as a pipeline file has it."""
    if isinstance(key, str):
        return key
    if not isinstance(key, Mapping) or isinstance(key.get("enum"), list) or not all(map(_is_type, key.values())):
        return json.dumps(key, ensure_ascii=False)
    fields = (
        f"{name if _PLAIN_FIELD.fullmatch(name) else json.dumps(name)}: {type_text(kind)}" for name, kind in key.items()
    )
    return "{" + ", ".join(fields) + "}"


def _is_type(value: Any) -> bool:
    return isinstance(value, str | Mapping)


class _Parser:
    def __init__(self, text: str, named: Any, written: Any) -> None:
        self.text, self.named, self.written = text, named, written
        self.at = self.depth = 0

    def type(self) -> FieldType:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TypeTextError(f"the type {self.text[:40]!r}… is nested too deeply", "use fewer levels")
        kind = self._atom()
        while self._take("?"):
            kind = kind if isinstance(kind, OptionalType) else OptionalType(kind)
        self.depth -= 1
        return kind

    def expect_end(self) -> None:
        self._skip()
        if self.at < len(self.text):
            raise self._error("the end")

    def _atom(self) -> FieldType:
        self._skip()
        if self.text.startswith("{", self.at):
            return self._mapping()
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self._error("a type")
        self.at = name.end()
        if name[0] == "list" and self._take("["):
            item = self.type()
            self._expect("]")
            return list_of(item)
        found: FieldType = self.named(name[0])
        return found

    def _mapping(self) -> FieldType:
        if _NOT_A_RECORD.match(self.text, self.at):
            end = _closing(self.text, self.at)
            value = _flow_mapping(self.text[self.at : end])
            kind: FieldType | None = None if value is None else self.written(value)
            if kind is not None:
                self.at = end
                return kind
        self._expect("{")
        fields: dict[str, FieldType] = {}
        while not self._take("}"):
            key = _KEY.match(self.text, self.at)
            if key is None:
                raise self._error("`field: type`")
            name = next(part for part in key.groups() if part is not None)
            if name in fields:
                raise TypeTextError(f"the type {self.text!r:.120} has the field {name!r} twice", "name each field once")
            self.at = key.end()
            fields[name] = self.type()
            if not self._take(","):
                self._expect("}")
                break
        if not fields:
            raise TypeTextError(f"the type {self.text!r:.120} has a record without fields")
        return RecordType(fields)

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _take(self, mark: str) -> bool:
        self._skip()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"`{mark}`")

    def _error(self, expected: str) -> TypeTextError:
        found = repr(self.text[self.at : self.at + 12]) if self.at < len(self.text) else "the end"
        return TypeTextError(f"{self.text!r:.120} is not a type: expected {expected}, found {found}")


def _closing(text: str, start: int) -> int:
    """The index after the brace that closes the one at `start`."""
    depth = 0
    for mark in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[{}]", text[start:]):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if not depth:
            return start + mark.end()
    return len(text)


def _flow_mapping(text: str) -> dict[str, Any] | None:
    """The mapping in a text of YAML; None where it is none, as where it contains `list[…]`."""
    from verdict_cli.language.document.document import parse_document  # only a type with an `enum` or a scale needs it

    try:
        data = parse_document(text.encode(), "").data
    except SpecError:
        return None
    return data if isinstance(data, dict) else None
