"""Placeholders: `{source.question}`, `{previous.judge[1].score:.2f}`. Any other brace is literal text.

Brace texts that name a value in another spelling are found too: they are mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from verdict_cli.config_model import MessageAndHint
from verdict_cli.errors import RowError
from verdict_cli.language.conversation import MESSAGE_FILTERS, ConversationError, filter_messages
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    ExpressionPaths,
    Resolve,
    RowValues,
    follow,
    format_expression_path,
)
from verdict_cli.language.expressions.value_text import insert
from verdict_cli.language.fields.types import ImageType, without_null
from verdict_cli.language.prompts.sections import Delimited, closed
from verdict_cli.regex import regex

_BRACES = regex(r"(?P<escape>\\)?(?P<braces>(?P<opening>\{+)(?P<inner>[^{}\n]*)(?P<closing>\}*))")
_NAME = r"[^\W\d]\w*"
_BRACE_STEP = rf"[ \t]*(?:(?:\.|->|::)[ \t]*(?P<name>{_NAME})|\[[ \t]*(?:(?P<index>-?\d+)|['\"]?(?P<key>[^'\"\[\]]+)['\"]?)[ \t]*\])"
_PATH = regex(rf"(?P<head>{_NAME})(?P<steps>(?:{re.sub('[?]P<[a-z]+>', '?:', _BRACE_STEP)})*)")
_BRACE_STEPS = regex(_BRACE_STEP)
_TAIL = regex(
    r"(?:![rsa])?(?::[<>^=+ -]?#?0?\d*,?(?:\.\d+)?[bcdeEfFgGnosxX%]|:[^\s:]*\.\d+)?(?:[ \t]*\|[^|].*)?",
    re.DOTALL,
)
_ROOT_TAIL = regex(rf"[:/](?:(?P<name>{_NAME})\Z|\S*)")
_WORDS = regex(rf"{_NAME}(?:[ .-]\w+)*")
_SIGILS = "$@#%&=~*-"
_TAG = ("%",)
"""The path of a tag of a template's own language."""
CODE_NAMES = frozenset(
    ("data", "self", "this", "cls", "obj", "props", "state", "params", "args", "kwargs", "ctx", "req", "res", "math", "os", "sys", "np", "pd", "console", "document", "window")
)  # fmt: skip
"""Names before a dot that code has more often than prompts of other tools."""


class BraceText(NamedTuple):
    """A brace text: as it is written, the path that it names, and what it is: a ``root`` in another spelling, a ``path`` from
    an unknown name, or a ``name`` alone. ``core``: the text without the braces; ``closed``: it has a closing brace."""

    written: str
    path: ExpressionPath
    kind: Literal["root", "path", "name"]
    core: str = ""
    closed: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns that it may mean."""
        if self.kind == "name":
            column = re.sub(r"\Asource[ _-]", "", self.core)
            return tuple(dict.fromkeys((self.core, str(self.path[0]), column)))
        if self.path[0] in CODE_NAMES or self.path == _TAG:
            return (self.core,)
        names = [part for part in self.path[1:] if isinstance(part, str)]
        return tuple(dict.fromkeys((self.core, *names[:1], *names[-1:])))

    def suggestion(self, column: str) -> str:
        """The path of the column, with what follows it in the text."""
        steps = self.path[self.path.index(column) + 1 :] if column in self.path else ()
        return format_expression_path(("source", column, *steps))


def find_brace_texts(text: str, roots: Collection[str]) -> Iterator[BraceText]:
    """The brace texts in a text without placeholders; each once, in order."""
    braces = set()
    for match in _BRACES.finditer(text):
        brace = None if match["escape"] else _read(match, roots)
        if brace is not None and brace not in braces:
            braces.add(brace)
            yield brace


def unescape(text: str, roots: Collection[str]) -> str:
    """The text without the backslash before each brace text."""
    if "\\{" not in text:
        return text
    return _BRACES.sub(
        lambda match: match["braces"] if match["escape"] and _read(match, roots) else match[0], text
    )


def brace_warning(brace: BraceText, roots: Collection[str]) -> MessageAndHint:
    """(message, hint) of a path from an unknown name."""
    if brace.path == _TAG:
        return (
            f"{brace.written} is literal text",
            "a prompt with loops and conditions is `prompt: {jinja: …}`",
        )
    hint = "a column is written {source.NAME}; \\{ prints the brace without this warning"
    close = get_close_matches(str(brace.path[0]).lower(), roots, n=1, cutoff=0.75)
    if close:
        hint = f"did you mean {{{close[0]}…}}?"
    return f"{brace.written} is literal text", hint


def brace_error(brace: BraceText, *, jinja: bool = False) -> MessageAndHint:
    """(message, hint) of a root in another spelling."""
    if brace.path == _TAG:
        return brace_warning(brace, ())
    path = format_expression_path(brace.path)
    right = f"{{{{ {path} }}}}" if jinja else f"{{{path}}}"
    if brace.path[0] == "output":
        return (
            f"{brace.written} is literal text: a prompt has no `output`",
            "write {previous.…} for what an earlier unit gave",
        )
    problem = "is literal text" if brace.closed else "has no closing brace"
    return f"{brace.written} {problem}", f"write {right}; \\{brace.written} prints it literally"


def _read(match: re.Match[str], roots: Collection[str]) -> BraceText | None:  # noqa: PLR0911 - a case for each form of braces
    inner, brace_text = match["inner"], match["braces"]
    if inner[:1] in ("%", "#") and inner[1:].strip(" -%#"):  # a template's own language
        if re.search(rf"\b(?:{'|'.join(roots)})[.\[]", inner):
            return BraceText(brace_text, _TAG, "root")
        return BraceText(brace_text, _TAG, "path") if inner[0] == "%" else None
    core = inner.strip().strip(_SIGILS).strip()
    closed = bool(match["closing"])
    path = _PATH.match(core)
    if path is None:
        return None
    parts: list[str | int] = [path["head"]]
    for step in _BRACE_STEPS.finditer(path["steps"]):
        part = step[step.lastgroup or 0]
        parts.append(int(part) if step["index"] else part)
    tail = core[path.end() :]
    root = next((name for name in (*roots, "output") if name.lower() == path["head"].lower()), None)
    if root is not None and root != "index":
        joined = _ROOT_TAIL.fullmatch(tail)
        target = (root, *parts[1:], *([joined["name"]] if joined and joined["name"] else []))
        whole = _TAIL.fullmatch(tail) or joined
        if not closed and len(parts) > 1 and (whole or not tail[:1].isalnum()):
            return BraceText(
                brace_text[: brace_text.index(path[0]) + len(path[0])], target, "root", closed=False
            )
        if (
            closed
            and whole
            and (
                len(parts) > 1
                or tail[:1] in (":", "/")
                or (root != "output" and brace_text != f"{{{root}}}")
            )
        ):
            return BraceText(brace_text, target, "root")
    if not closed and tail:
        return None
    if _TAIL.fullmatch(tail):
        return BraceText(
            brace_text, tuple(parts), "path" if len(parts) > 1 else "name", core, closed
        )
    return BraceText(brace_text, (core,), "name", core, closed) if _WORDS.fullmatch(core) else None


PLACEHOLDER_ROOTS = ("source", "previous", "input", "unit")


@cache
def _opening(roots: tuple[str, ...]) -> re.Pattern[str]:
    """What begins a placeholder with one of these roots; `index` is a number, which may have a format."""
    formatted = "|index(?=[:}])" if "index" in roots else ""
    return re.compile(
        rf"(?P<escape>\\)?(?P<doubled>\{{)?\{{(?P<root>(?:{'|'.join(roots)})(?=[.\[}}]){formatted})"
        r"(?P<rest>(?:'[^'\n]*'|\"[^\"\n]*\"|[^{}'\"\n])*)\}"
    )


_STEP = regex(r"\.(\w+)|\[(-?\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_FILTER = regex(
    rf"[ \t]*\|[ \t]*({'|'.join(MESSAGE_FILTERS)})\([ \t]*(?:(\d{{1,6}})|'([^']*)'|\"([^\"]*)\")[ \t]*\)[ \t]*(?=$|\|)"
)
_NUMBERED = regex(r"[ \t]*\|[ \t]*numbered[ \t]*")
_FILTER_TAKES = {int: "a number of messages", str: "a role"}


MessageFilters = tuple[tuple[str, int | str], ...]
"""Filters of a conversation, each with its argument."""


class Slot(Struct, frozen=True, dict=True, cache_hash=True):
    """One placeholder: the path as written, what it means, its format, whether it is an image, whether its text is
    delimited, the messages it shows, and whether it is a list whose items get numbers."""

    written: ExpressionPath
    paths: ExpressionPaths
    many: bool
    spec: str
    image: bool = False
    delimited: bool = False
    filters: MessageFilters = ()
    numbered: bool = False

    @property
    def has_form(self) -> bool:
        """Whether the prompt says how the value is written."""
        return bool(self.many or self.spec or self.filters or self.numbered)

    @property
    def is_of_row(self) -> bool:
        """Whether the value is one of the row, and not a setting of the unit or the number of an entry."""
        return self.paths[0][0] not in ("unit", "index")

    def fill(self, values: RowValues) -> str:
        """The text of the placeholder, `Delimited` where it is delimited. RowError names the placeholder."""
        try:
            value = self._all(values) if self.many else follow(self.paths[0], values)
            for name, argument in self.filters:
                value = filter_messages(value, name, argument)
            text = numbered_items(value) if self.numbered else insert(value, self.spec)
            if not self.delimited or isinstance(value, int | float):
                return text
            delimited = Delimited(text)
            delimited.images = getattr(text, "images", ())
            return delimited
        except ConversationError as error:
            name = format_expression_path(self.written)
            raise RowError(
                f"{{{name}}}: `{self.filters[0][0]}` takes a conversation: {error}"
            ) from None
        except RowError as error:
            message, name = error.message, format_expression_path(self.written)
            if not message.startswith(name):
                message = f"{{{name}}}: {message}"
            raise RowError(message, kind=error.failure) from None

    def _all(self, values: RowValues) -> list[Any]:
        items = [follow(path, values) for path in self.paths]
        if any(item is None for item in items):
            raise RowError("one of these units has no output", kind="missing-value")
        return items


def numbered_items(value: Any) -> str:
    """A list as a prompt shows it with `| numbered`: each item after its number, from 1. RowError for another value.

    Further lines of an item are indented, so that no text can pass for an item of its own.
    """
    if not isinstance(value, list | tuple):
        raise RowError("`numbered` takes a list", hint="such as `list[str]` in `dataset.schema`")
    texts = ("\n    ".join(insert(item).splitlines()) for item in value)
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def parse_placeholders(
    text: str,
    resolve: Resolve,
    problem: Callable[[str, str], None],
    delimit: bool = False,
    roots: tuple[str, ...] = PLACEHOLDER_ROOTS,
    brace: Callable[[BraceText], None] = lambda _: None,
) -> tuple[str | Slot, ...]:
    """The text's literal pieces and slots in order. `problem(message, hint)` is called for what can never be filled, and
    `brace(found)` for each brace text between the placeholders.

    With ``delimit``, slots for texts by others are delimited: all but the unit's own settings, what a pinned unit gave, and
    closed types.
    """
    parts: list[str | Slot] = []
    end = 0

    def literal(piece: str) -> None:
        parts.append(unescape(piece, roots))
        for brace_text in find_brace_texts(piece, roots):
            brace(brace_text)

    for match in _opening(roots).finditer(text):
        path_text = match["root"] + match["rest"]
        literal(text[end : match.start()])
        end = match.end()
        if match["escape"]:
            parts.append((match["doubled"] or "") + "{" + path_text + "}")
            continue
        if match["doubled"] and text[end : end + 1] == "}":
            problem(f"{{{{{path_text}}}}} has double braces", f"write {{{path_text}}}")
            continue
        parts.append(match["doubled"] or "")
        try:
            steps, numbered = _NUMBERED.subn("", match["rest"])
            path, spec, filters = _path(match["root"], steps)
            target = resolve(path)
        except ExpressionError as error:
            problem(f"{{{path_text}}}: {error.message}", error.hint)
            continue
        image = isinstance(without_null(target.type), ImageType)
        delimited = (
            delimit and path[0] != "unit" and not (image or target.trusted or closed(target.type))
        )
        parts.append(
            Slot(path, target.paths, target.many, spec, image, delimited, filters, numbered > 0)
        )
    literal(text[end:])
    return tuple(part for part in parts if part != "")


def _path(root: str, steps: str) -> tuple[ExpressionPath, str, MessageFilters]:
    """The path, the format and the filters of a placeholder."""
    parts: list[str | int] = [root]
    position = 0
    while match := _STEP.match(steps, position):
        part = match[match.lastindex or 0]
        parts.append(int(part) if match[2] else part)
        position = match.end()
    tail = steps[position:]
    if tail.startswith(":"):
        return tuple(parts), tail[1:], ()
    filters: list[tuple[str, int | str]] = []
    while match := _FILTER.match(tail):
        name, count = match[1], match[2]
        if (count is None) == (MESSAGE_FILTERS[name] is int):
            raise ExpressionError(
                f"`{name}` takes {_FILTER_TAKES[MESSAGE_FILTERS[name]]}",
                "such as `last(6)` or `without('tool')`",
            )
        filters.append((name, match[match.lastindex or 0] if count is None else int(count)))
        tail = tail[match.end() :]
    if tail:
        raise ExpressionError(
            f"{tail!r} is not allowed in a placeholder",
            "a path is written `source.question`, `source['my column']`, `previous.judge[1].score`, "
            "followed by a format such as `:.2f`, by `| numbered` of a list, or by `| last(6)`, `first`, `only` or `without` of a conversation; "
            "`\\{` makes a brace literal",
        )
    return tuple(parts), "", tuple(filters)
