"""Read a YAML file into values with positions: duplicate keys, aliases and size limits are checked here, and syntax errors
said in plain words."""

from __future__ import annotations

import codecs
import json
import pathlib
import re
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, NoReturn

from yaml import events
from yaml.error import MarkedYAMLError
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from verdict_cli.config_model import HintedError, MessageAndHint
from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.source_positions import (
    Document,
    Position,
    ValueNode,
    format_path,
)
from verdict_cli.regex import regex

_BLANK = regex(r"[ \t]*[#\r\n\0]")


# Not `yaml.compose`: it stops at the first problem, keeps the last of two equal keys, and expands aliases without a limit.
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


class Composer:
    """Builds the nodes from events, and collects problems."""

    def __init__(self, source: Events, file: str, back: dict[int, str]) -> None:
        self.source: Any = source
        """PyYAML's methods have no types."""
        self.file = file
        self.back = back
        self.problems: list[Problem] = []
        self.path: list[Any] = []
        """Where the next value stands: indices and keys; None for a key itself, and for one that is wrong."""
        self.anchors: dict[str, ValueNode | None] = {}
        self.aliased = 0

    def compose(self) -> ValueNode | None:
        """The node of the only document; None for an empty file."""
        root = None
        self.source.get_event()
        if not self.source.check_event(events.StreamEndEvent):
            self.source.get_event()
            root = self._value()
            self.source.get_event()
        if not self.source.check_event(events.StreamEndEvent):
            hint = "Keep one pipeline a file; remove the line `---`."
            mark = self.source.get_event().start_mark
            self.stop("several-documents", "a second document begins here", hint, mark)
        return root

    def finish(self, root: ValueNode | None, list_key: str = "") -> Document:
        """The document, or SpecError with every problem. With ``list_key`` a file that is a list is the value of that key."""
        if list_key and root is not None and isinstance(root.value, list):
            root = ValueNode({list_key: root.value}, root.at, {list_key: root}, {list_key: root.at})
        hint = f"Begin it with `{list_key}:` and a list." if list_key else _START
        if root is None or (root.value is None and not self.problems):
            self._problem("empty-file", "the file is empty", hint, Position(1, 1))
        elif root.value is not None and not isinstance(root.value, dict):
            kind = "a list" if isinstance(root.value, list) else "a single value"
            self._problem(
                "not-a-mapping", f"the file is {kind}, expected `key: value` lines", hint, root.at
            )
        if self.problems or root is None:
            raise SpecError(self.problems)
        return Document(self.file, root.value, root)

    def stop(self, code: str, message: str, hint: str, mark: Any) -> NoReturn:
        """Raise SpecError with this problem after all earlier ones."""
        self._problem(code, message, hint, _position(mark))
        raise SpecError(self.problems)

    def _problem(self, code: str, message: str, hint: str, position: Position) -> None:
        path = tuple(takewhile(lambda part: part is not None, self.path))
        path_text = format_path(path) if len(path) <= 20 else ""  # longer than anybody would read
        message = message.translate(self.back)
        self.problems.append(
            Problem(code, message, hint, self.file, position.line, position.column, path_text)
        )

    def _value(self) -> ValueNode:
        event = self.source.get_event()
        if isinstance(event, events.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        is_scalar = isinstance(event, events.ScalarEvent)
        node = self._scalar(event) if is_scalar else self._collection(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _collection(self, event: events.CollectionStartEvent) -> ValueNode:
        if len(self.path) >= MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} deep"
            hint = "Name inner parts under `blocks:` and refer to them with `use:`."
            self.stop("too-deep", message, hint, event.start_mark)
        is_list = isinstance(event, events.SequenceStartEvent)
        node = ValueNode([] if is_list else {}, _position(event.start_mark))
        tag = format_tag(event.tag)
        if tag not in (None, "!", "!!seq" if is_list else "!!map"):
            self._problem("tag", *wrong_tag(tag, _kind(node.value)), node.at)
        self.path.append(None)
        if is_list:
            self._fill_list(node)
        else:
            self._fill_mapping(node)
        self.path.pop()
        self.source.get_event()
        return node

    def _fill_list(self, node: ValueNode) -> None:
        self.path[-1] = 0
        while not self.source.check_event(events.SequenceEndEvent):
            node.add(self.path[-1], self._value(), None)
            self.path[-1] += 1

    def _fill_mapping(self, node: ValueNode) -> None:
        while not self.source.check_event(events.MappingEndEvent):
            position = _position(self.source.peek_event().start_mark)
            key = self.path[-1] = self._key(node.keys or {}, position)
            child = self._value()
            if key is not None:
                node.add(key, child, position)
            self.path[-1] = None

    def _key(self, keys: Mapping[Any, Position], position: Position) -> Any:
        """The next key of a mapping; None, and the problem with it, for one that is wrong."""
        event = self.source.peek_event()
        problems = len(self.problems)
        key = self._value().value
        if len(self.problems) > problems:
            return None
        if key is None or isinstance(key, dict | list):
            hint = "Text that begins with `{` or `[` must be in quotes or in a block scalar: `prompt: |`."
            if key is None:
                hint = "Write the key before its colon, `null` and `~` in quotes."
            self._problem("key", f"{_kind(key)} cannot be a key, expected a word", hint, position)
        elif key == "<<" and isinstance(event, events.ScalarEvent) and event.implicit[0]:
            hint = "Merge keys are not part of YAML 1.2: write the keys out, or name a block under `blocks:`."
            self._problem(
                "merge-key", "`<<` is a plain key in YAML 1.2 and merges nothing", hint, position
            )
        elif key in keys:
            self.path[-1] = key
            message = f"the key {json.dumps(key, ensure_ascii=False)} is a duplicate; the first one is on line {keys[key].line}"
            self._problem("duplicate-key", message, "Keep one of the two.", position)
        else:
            return key
        return None

    def _scalar(self, event: events.ScalarEvent) -> ValueNode:
        position = _position(event.start_mark)
        tag = format_tag(event.tag)
        text = event.value.translate(self.back)
        try:
            return ValueNode(resolve(text, tag, plain=event.implicit[0] and tag is None), position)
        except UnfitError as unfit:
            self._problem(unfit.code, unfit.message, unfit.hint, position)
            return ValueNode(None, position)

    def _alias(self, event: events.AliasEvent) -> ValueNode:
        position = _position(event.start_mark)
        name = str(event.anchor)
        node = self.anchors.get(name)
        if node is None and name in self.anchors:
            self._problem(
                "recursive-alias", f"`*{name}` is inside its own anchor", _CYCLE, position
            )
        elif node is None:
            near = get_close_matches(name, self.anchors, n=1)
            hint = "Text that begins with `*` must be in quotes."
            if near:
                hint = f"Did you mean `*{near[0]}`?"
            message = f"there is no anchor `&{name}` above this alias"
            self._problem("unknown-alias", message, hint, position)
        node = node or ValueNode(None, position)
        # A few lines of aliases to aliases stand for billions of values ("billion laughs").
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            message = f"aliases expand to more than {MAX_ALIASED:,} values"
            self.stop("alias-limit", message, "Use fewer aliases.", event.start_mark)
        if len(self.path) + node.height + isinstance(node.value, dict | list) > MAX_DEPTH:
            message = f"with this alias, lists and mappings are nested more than {MAX_DEPTH} deep"
            self.stop("too-deep", message, "Use fewer aliases.", event.start_mark)
        return node.copy()


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else "a mapping"


class UnfitError(HintedError):
    """A scalar that has no value."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.code = code


_SURROGATE = regex("[\ud800-\udfff]")

# YAML 1.2.2, section 10.3.2, in its order.
_NULL = regex(r"null|Null|NULL|~|")
_BOOL = regex(r"(true|True|TRUE)|false|False|FALSE")
_INT = regex(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNBOUNDED = regex(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolve(text: str, tag: str | None, *, plain: bool) -> Any:
    """The value of a scalar with this tag. Raises UnfitError."""
    if _SURROGATE.search(text):
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
            excerpt = text if len(text) <= 40 else f"{text[:40]}…"
            raise UnfitError(
                "not-finite",
                f"{excerpt} is not a finite number",
                "If text is meant, put it in quotes.",
            )
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


def wrong_tag(tag: str | None, value: str) -> MessageAndHint:
    """Message and hint for a tag that the value cannot have."""
    if tag in _CORE:
        return f"{value} is not a `{tag}`", "Remove the tag or change the value."
    return f"the tag `{tag}` is not allowed", f"Remove it: the only tags are {', '.join(_CORE)}."


MAX_BYTES = 10 * 1024 * 1024
_MARK_WITHIN = regex(r"(?<=[^\s,\[\]{}])\?")
"""A question mark that does not begin a scalar."""


def read_document(path: pathlib.Path, list_key: str = "") -> Document:
    """The document in a file. Raises SpecError when it cannot be opened or is not a YAML mapping; with ``list_key`` a list
    is the value of that key."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SpecError([_unreadable(path, error)]) from None
    return parse_document(text, file, list_key)


def _unreadable(path: pathlib.Path, error: Exception) -> Problem:
    file = str(path)
    if isinstance(error, FileNotFoundError):
        return Problem("not-found", "there is no such file", _nearest_file(path), file)
    if isinstance(error, IsADirectoryError):
        message = "this is a directory, not a file"
        return Problem("not-a-file", message, "Name a pipeline file in it.", file)
    if isinstance(error, PermissionError):
        hint = "Check who may read it: `ls -l`."
        return Problem("not-readable", "no permission to read this file", hint, file)
    reason = getattr(error, "strerror", None) or str(error)
    return Problem("not-readable", f"the file cannot be read: {reason}", "", file)


def _nearest_file(path: pathlib.Path) -> str:
    """The hint for a file that is missing."""
    from verdict_cli.language.package_files import configs
    from verdict_cli.storage.paths import was_url

    if path.stem in configs():
        return f"The pipeline {path.stem} comes with verdict: give its name, {path.stem}, without folder and ending."
    if was_url(path):
        return "A pipeline file is not read from a URL: download it, and give the path."
    if not path.parent.is_dir():
        return f"There is no directory {path.parent} either."
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.with_name(near[0])}?" if near else "Check the file's name."


def parse_document(text: bytes, file: str, list_key: str = "") -> Document:
    """The document in a file's bytes; ``file`` is its name in messages.

    Raises SpecError with every problem of the values; a syntax error is always the last one.
    """
    if len(text) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1024**2} MiB"
        hint = "A pipeline file holds prompts and settings; data belongs into a dataset."
        raise SpecError([Problem("too-large", message, hint, file)])
    decoded = _decode(text, file)
    # YAML 1.2 breaks lines at LF and CR only, PyYAML also at these; it drops a byte order mark at the start.
    # They are replaced by private-use characters that the file contains neither literally nor as an escape.
    used = set(map(ord, set(decoded))) | {
        int(code, 16) for code in re.findall(r"\\U([0-9a-fA-F]{8})", decoded)
    }
    free = (code for code in range(0xF0000, 0x10FFFE) if code not in used)
    away = dict(zip(map(ord, "\x85\u2028\u2029\ufeff"), free, strict=False))
    back = {code: chr(special) for special, code in away.items()}
    # In `{note: str?, …}` PyYAML takes the question mark for an indicator; in YAML 1.2 it is one only before a space.
    mark = next(free)
    back[mark] = "?"
    source = Events(_MARK_WITHIN.sub(chr(mark), decoded.translate(away)))
    tree = Composer(source, file, back)
    try:
        return tree.finish(tree.compose(), list_key)
    except MarkedYAMLError as error:
        tree.stop(*plain_words(error, source.buffer))
    except (ValueError, OverflowError):
        # chr() and int() refuse `"\UFFFFFFFF"` and an endless number after `%YAML`; PyYAML does not catch these errors.
        hint = "`\\U` goes up to `\\U0010FFFF`."
        tree.stop("yaml-syntax", "a number is out of range", hint, source.get_mark())


def _decode(text: bytes, file: str) -> str:
    """The text without its byte order mark; UTF-8 and printable, or SpecError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        message = "the file is UTF-16 or UTF-32, expected UTF-8"
        raise SpecError([Problem("not-utf8", message, "Save it as UTF-8.", file, 1, 1)])
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        position = _end_of(text[: error.start].decode("utf-8"))
        message = f"byte 0x{text[error.start]:02x} is not valid UTF-8"
        raise SpecError(
            [
                Problem(
                    "not-utf8",
                    message,
                    "Save the file as UTF-8.",
                    file,
                    position.line,
                    position.column,
                )
            ]
        ) from None
    bad = Reader.NON_PRINTABLE.search(decoded)
    if bad:
        position = _end_of(decoded[: bad.start()])
        message = f"the control character U+{ord(bad[0]):04X} is not allowed in YAML"
        hint = 'Remove it, or write it as an escape in double quotes, such as "\\x07".'
        raise SpecError(
            [Problem("control-character", message, hint, file, position.line, position.column)]
        )
    return decoded


def _end_of(before: str) -> Position:
    """The position after this text."""
    before = before.replace("\r\n", "\n").replace("\r", "\n")
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))


# Patterns in what PyYAML says, the message, the hint. {0} is the pattern's first group; an empty hint is found
# by _why from the line itself.
_QUOTES = "Put the text into quotes, or below its key as a block scalar: `prompt: |`."
_MESSAGES: tuple[tuple[str, str, str], ...] = (
    (r"found character '\\t'", "a tab is used for indentation", "Indent with spaces."),
    (r"found character ('.')", "text cannot begin with {0} unless it is in quotes", _QUOTES),
    (r"could not find expected ':'", "this line is not a `key: value`", "Write a colon and a space after the key. Put long text in quotes, or below its key as a block scalar: `prompt: |`."),
    (r"mapping values are not", "a `:` cannot stand here", ""),
    (r"sequence entries are not", "a list item `- ` cannot stand here", "Begin a list on a line of its own below its key; put text that begins with `- ` into quotes."),
    (r"mapping keys are not", "`? ` cannot stand here", _QUOTES),
    (r"quoted scalar: found unexpected", "this quote is never closed", "Close it. Inside single quotes an apostrophe is doubled: 'it''s'."),
    (r"unknown escape character ['\"](.+)['\"]", "`\\{0}` is no escape in double quotes", "Write `\\\\` for a backslash, or use single quotes."),
    (r"escape sequence of (\d) hexa", "an escape in double quotes needs {0} hexadecimal digits here", "Write `\\\\` for a backslash, or use single quotes."),
    (r"scanning an (anchor|alias)", "this is not the name of an {0}", "A name has letters, digits, `-` and `_`; text that begins with `*` or `&` must be in quotes."),
    (r"scanning a block scalar", "only `+`, `-` or a digit from 1 to 9 may follow `|` or `>` on its line", "Begin the text on the next line, indented."),
    (r"directive|YAML document|tag handle|a tag\b", "a directive or tag cannot be read: {problem}", "Text that begins with `%` or `!` must be in quotes."),
    (r"flow mapping.*got '(.+)'", "the `{{` of line {line} is not closed: expected `,` or `}}`, found {token}", "Text that contains braces or brackets must be in quotes or in a block scalar: `prompt: |`. A key and its colon are on one line."),
    (r"flow sequence.*got '(.+)'", "the `[` of line {line} is not closed: expected `,` or `]`, found {token}", "Text that contains brackets must be in quotes or in a block scalar: `prompt: |`."),
    (r"block mapping.*found '(.+)'", "{token} is not allowed here, in the mapping that begins on line {line}", ""),
    (r"block collection.*found '(.+)'", "{token} is not allowed here, in the list that begins on line {line}", ""),
    (r"node content, but found '(.+)'", "expected a value, found {token}", _QUOTES),
    (r"document start>', but found '(.+)'", "the top level has ended above, found {token}", ""),
    (r"", "the YAML cannot be read here: {problem}", _QUOTES),
)  # fmt: skip
_TOKENS = {
    "<scalar>": "text",
    "<stream end>": "the end of the file",
    "<block mapping start>": "a key",
    "<block sequence start>": "a list item",
    "<block end>": "the end of the indented block",
    "<document start>": "`---`",
    "<document end>": "`...`",
    "?": "a key",
    "-": "a list item",
}


def plain_words(error: MarkedYAMLError, text: str) -> tuple[str, str, str, Any]:
    """Code, message, hint and mark for a syntax error of PyYAML in ``text``."""
    original = f"{error.context}: {error.problem}"
    begun, mark = error.context_mark, error.problem_mark
    match, message, hint = next(
        (match, message, hint)
        for pattern, message, hint in _MESSAGES
        if (match := re.search(pattern, original))
    )
    captured = match[1] if match.re.groups else ""
    token = _TOKENS.get(captured, f"`{captured.strip('<>')}`")
    message = message.format(
        captured, token=token, line=begun.line + 1 if begun else 0, problem=error.problem
    )
    cause_is_earlier = "could not find" in original or "scalar: found unexpected" in original
    line = "" if mark is None else text[mark.index - mark.column :].partition("\n")[0]
    if quote := _TYPOGRAPHIC.search(line):
        hint = f"{quote[1]} is a typographic quote, which is a letter to YAML: write \" or '."
    elif mark is not None and not hint:
        hint = _why(text[mark.index - mark.column : mark.index].strip(" "))
    return "yaml-syntax", message, hint, begun if cause_is_earlier else mark


_TYPOGRAPHIC = regex(r"(?:[:-] |[\[{,] *)([“”„‘’«»])")
"""A value that begins with a character that looks like a quote."""


def _why(before: str) -> str:
    """The likely cause of an unexpected token, from the text before it on its line."""
    if "\t" in before:
        return f"Unquoted text cannot contain a tab. {_QUOTES}"
    if before[-1:] in ("'", '"', "}", "]"):
        return f"Nothing may follow the closing {before[-1]} on its line. {_QUOTES}"
    if ": " in before:
        return f"Unquoted text cannot contain a colon followed by a space. {_QUOTES}"
    return "Indent the line as those around it; check that every key above has a colon and a space after it."
