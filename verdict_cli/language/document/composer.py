"""Build values with positions from YAML events; duplicate keys, aliases and size limits are checked here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from yaml import events
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.source_positions import Document, Position, ValueNode, format_path

_BLANK = re.compile(r"[ \t]*[#\r\n\0]")


class Events(Reader, Scanner, Parser):
    """PyYAML's parser, which also takes tabs as separation where YAML 1.2 does (section 6.2)."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_to_next_token(self) -> None:
        """Skip tabs in flow collections, after a token of the line, and on blank lines; never as indentation."""
        super().scan_to_next_token()
        while self.peek() == "\t" and self._separates():
            while self.peek() in " \t":
                self.forward()
            super().scan_to_next_token()

    def _separates(self) -> bool:
        if self.flow_level or _BLANK.match(self.buffer, self.pointer):
            return True
        return bool(self.buffer[self.pointer - self.column : self.pointer].strip(" \t-?"))


MAX_DEPTH = 100
MAX_ALIASED = 10_000

_CYCLE = "A value cannot contain itself."
_START = "A pipeline file begins with `verdict: 1`, `name:` and `pipeline:`."
_NO_KEY: Any = object()
_DROPPED: Any = object()


@dataclass(slots=True)
class _Open:
    """A collection that is not closed yet; ``key`` is the one whose value comes next (_DROPPED: it was wrong)."""

    node: ValueNode
    anchor: str | None
    key: Any = _NO_KEY
    key_at: Position | None = None


class Composer:
    """Builds the nodes from events, one at a time, and collects problems."""

    def __init__(self, file: str, back: dict[int, str]) -> None:
        self.file = file
        self.back = back
        self.problems: list[Problem] = []
        self.stack: list[_Open] = []
        self.anchors: dict[str, ValueNode | None] = {}
        self.aliased = 0
        self.documents = 0
        self.root: ValueNode | None = None

    def take(self, event: Any) -> None:
        """Add one event to the tree."""
        if isinstance(event, events.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, events.AliasEvent):
            self._alias(event)
        elif isinstance(event, events.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, events.CollectionEndEvent):
            closed = self.stack.pop()
            if closed.anchor is not None:
                self.anchors[closed.anchor] = closed.node
            self._put(closed.node, closed.node.at)
        elif isinstance(event, events.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                hint = "Keep one pipeline a file; remove the line `---`."
                self.stop("several-documents", "a second document begins here", hint, event.start_mark)

    def finish(self) -> Document:
        """The document, or SpecError with every problem."""
        root = self.root
        if root is None or (root.value is None and not self.problems):
            self._problem("empty-file", "the file is empty", _START, Position(1, 1))
        elif root.value is not None and not isinstance(root.value, dict):
            kind = "a list" if isinstance(root.value, list) else "a single value"
            self._problem("not-a-mapping", f"the file is {kind}, expected `key: value` lines", _START, root.at)
        if self.problems or root is None:
            raise SpecError(self.problems)
        return Document(self.file, root.value, root)

    def stop(self, code: str, message: str, hint: str, mark: Any) -> NoReturn:
        """Raise SpecError with this problem after all earlier ones."""
        self._problem(code, message, hint, _position(mark))
        raise SpecError(self.problems)

    def _problem(self, code: str, message: str, hint: str, at: Position) -> None:
        path: list[Any] = []
        for opened in self.stack:
            key = len(opened.node.value) if isinstance(opened.node.value, list) else opened.key
            if key is _NO_KEY or key is _DROPPED:
                break
            path.append(key)
        message = message.translate(self.back)
        shown = format_path(tuple(path)) if len(path) <= 20 else ""  # longer than anybody would read
        self.problems.append(Problem(code, message, hint, self.file, at.line, at.column, shown))

    def _open(self, event: events.CollectionStartEvent) -> None:
        if len(self.stack) >= MAX_DEPTH:
            hint = "Name inner parts under `blocks:` and refer to them with `use:`."
            self.stop("too-deep", f"lists and mappings are nested more than {MAX_DEPTH} deep", hint, event.start_mark)
        empty: Any = [] if isinstance(event, events.SequenceStartEvent) else {}
        at = _position(event.start_mark)
        expected = "!!seq" if empty == [] else "!!map"
        tag = format_tag(event.tag)
        if tag not in (None, "!", expected):
            self._problem("tag", *wrong_tag(tag, "a list" if empty == [] else "a mapping"), at)
        self.stack.append(_Open(ValueNode(empty, at), event.anchor))
        if event.anchor is not None:
            self.anchors[event.anchor] = None

    def _scalar(self, event: events.ScalarEvent) -> None:
        at = _position(event.start_mark)
        tag = format_tag(event.tag)
        value: Any = None
        fits = True
        try:
            value = resolve(event.value.translate(self.back), tag, plain=event.implicit[0] and tag is None)
        except UnfitError as unfit:
            fits = False
            self._problem(unfit.code, unfit.message, unfit.hint, at)
        node = ValueNode(value, at)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        is_key = bool(self.stack) and isinstance(self.stack[-1].node.value, dict) and self.stack[-1].key is _NO_KEY
        if is_key and fits and value == "<<" and event.implicit[0]:
            fits = False
            hint = "Merge keys are not part of YAML 1.2: write the keys out, or name a block under `blocks:`."
            self._problem("merge-key", "`<<` is a plain key in YAML 1.2 and merges nothing", hint, at)
        if is_key and not fits:
            self.stack[-1].key = _DROPPED
        else:
            self._put(node, at)

    def _alias(self, event: events.AliasEvent) -> None:
        at = _position(event.start_mark)
        name = str(event.anchor)
        node = self.anchors.get(name)
        if node is None:
            near = get_close_matches(name, self.anchors, n=1)
            hint = f"Did you mean `*{near[0]}`?" if near else "Text that begins with `*` must be in quotes."
            if name in self.anchors:
                self._problem("recursive-alias", f"`*{name}` is inside its own anchor", _CYCLE, at)
            else:
                self._problem("unknown-alias", f"there is no anchor `&{name}` above this alias", hint, at)
            node = ValueNode(None, at)
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            message = f"aliases expand to more than {MAX_ALIASED:,} values"
            self.stop("alias-limit", message, "Use fewer aliases.", event.start_mark)
        if len(self.stack) + node.height + isinstance(node.value, dict | list) > MAX_DEPTH:
            message = f"with this alias, lists and mappings are nested more than {MAX_DEPTH} deep"
            self.stop("too-deep", message, "Use fewer aliases.", event.start_mark)
        self._put(node.copy(), at)

    def _put(self, node: ValueNode, at: Position) -> None:
        """Hand a finished value to the collection that contains it."""
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if isinstance(parent.node.value, list):
            parent.node.add(len(parent.node.value), node, None)
        elif parent.key is _NO_KEY:
            self._key(parent, node.value, at)
        else:
            if parent.key is not _DROPPED:
                parent.node.add(parent.key, node, parent.key_at)
            parent.key = _NO_KEY

    def _key(self, parent: _Open, key: Any, at: Position) -> None:
        """Record a key of a mapping, or the problem with it."""
        if key is None or isinstance(key, dict | list):
            hint = "Text that begins with `{` or `[` must be in quotes or in a block scalar: `prompt: |`."
            self._problem("key", f"{_kind(key)} cannot be a key, expected a word", hint, at)
            parent.key = _DROPPED
            return
        first = (parent.node.keys or {}).get(key)
        parent.key, parent.key_at = key, at
        if first is not None:
            message = (
                f"the key {json.dumps(key, ensure_ascii=False)} is a duplicate; the first one is on line {first.line}"
            )
            self._problem("duplicate-key", message, "Keep one of the two.", at)
            parent.key = _DROPPED


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _kind(value: Any) -> str:
    return "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"


class UnfitError(Exception):
    """A scalar that has no value."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


# YAML 1.2.2, section 10.3.2, in its order.
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNBOUNDED = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolve(text: str, tag: str | None, *, plain: bool) -> Any:
    """The value of a scalar with this tag. Raises UnfitError."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        text = _joined(text)
    if tag in ("!", "!!str") or (tag is None and not plain):
        return text
    if tag in (None, "!!null") and _NULL.fullmatch(text):
        return None
    truth = _BOOL.fullmatch(text)
    if tag in (None, "!!bool") and truth:
        return truth[1] is not None
    if tag in (None, "!!int") and _INT.fullmatch(text):
        return _whole(text)
    if tag in (None, "!!float") and (_FLOAT.fullmatch(text) or _UNBOUNDED.fullmatch(text)):
        number = float("nan") if _UNBOUNDED.fullmatch(text) else float(text)
        if not abs(number) < float("inf"):
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise UnfitError("not-finite", f"{shown} is not a finite number", "If text is meant, put it in quotes.")
        return number
    if tag is None:
        return text
    raise UnfitError("tag", *wrong_tag(tag, json.dumps(text[:40], ensure_ascii=False)))


_DIGITS = 300
"""The most digits of a whole number. A longer one exceeds every float."""


def _whole(text: str) -> int:
    if len(text.lstrip("+-")) > _DIGITS:
        message = f"a whole number of {len(text):,} characters is too long"
        raise UnfitError("number-too-long", message, "If text is meant, put it in quotes.")
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _joined(text: str) -> str:
    """JSON's ``"\\ud83d\\ude00"`` as one character. Raises UnfitError for half a pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        hint = "Write the character itself, or both halves of the pair."
        raise UnfitError("surrogate", "a `\\u` escape is half of a surrogate pair", hint) from None


_CORE = ("!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq")


def format_tag(tag: str | None) -> str | None:
    """The tag in its short form."""
    if tag is None or tag.startswith("!"):
        return tag
    core = tag.removeprefix("tag:yaml.org,2002:")
    return f"!!{core}" if core != tag else f"!<{tag}>"


def wrong_tag(tag: str | None, value: str) -> tuple[str, str]:
    """Message and hint for a tag that the value cannot have."""
    if tag in _CORE:
        return f"{value} is not a `{tag}`", "Remove the tag or change the value."
    return f"the tag `{tag}` is not allowed", f"Remove it: the only tags are {', '.join(_CORE)}."
