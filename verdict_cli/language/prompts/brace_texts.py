"""Braces in a prompt that are no placeholders, but name a value as other tools spell it: `{{ source.text }}`, `{row.text}`, `{text}`.

They stay in the prompt as they are, so the judge would see the braces and not the text. `\\{` prints any of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Literal, NamedTuple

from verdict_cli.language.expressions.paths import ExpressionPath, format_expression_path

_BRACES = re.compile(r"(?P<escape>\\)?(?P<braces>(?P<opening>\{+)(?P<inner>[^{}\n]*)(?P<closing>\}*))")
_NAME = r"[^\W\d]\w*"
_STEP = rf"[ \t]*(?:(?:\.|->|::)[ \t]*(?P<name>{_NAME})|\[[ \t]*(?:(?P<index>-?\d+)|['\"]?(?P<key>[^'\"\[\]]+)['\"]?)[ \t]*\])"
_PATH = re.compile(rf"(?P<head>{_NAME})(?P<steps>(?:{re.sub('[?]P<[a-z]+>', '?:', _STEP)})*)")
_STEPS = re.compile(_STEP)
_TAIL = re.compile(
    r"(?:![rsa])?(?::[<>^=+ -]?#?0?\d*,?(?:\.\d+)?[bcdeEfFgGnosxX%]|:[^\s:]*\.\d+)?(?:[ \t]*\|[^|].*)?", re.DOTALL
)
_ROOT_TAIL = re.compile(rf"[:/](?:(?P<name>{_NAME})\Z|\S*)")
_WORDS = re.compile(rf"{_NAME}(?:[ .-]\w+)*")
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
            return tuple(dict.fromkeys((self.core, str(self.path[0]), re.sub(r"\Asource[ _-]", "", self.core))))
        if self.path[0] in CODE_NAMES or self.path == _TAG:
            return (self.core,)
        names = [part for part in self.path[1:] if isinstance(part, str)]
        return tuple(dict.fromkeys((self.core, *names[:1], *names[-1:])))

    def suggestion(self, column: str) -> str:
        """The path of the column, with what follows it in the text."""
        rest = self.path[self.path.index(column) + 1 :] if column in self.path else ()
        return format_expression_path(("source", column, *rest))


def find_brace_texts(text: str, roots: Collection[str]) -> Iterator[BraceText]:
    """The brace texts in a text without placeholders; each once, in order."""
    seen = set()
    for match in _BRACES.finditer(text):
        found = None if match["escape"] else _read(match, roots)
        if found is not None and found not in seen:
            seen.add(found)
            yield found


def unescaped(text: str, roots: Collection[str]) -> str:
    """The text without the backslash before each brace text."""
    if "\\{" not in text:
        return text
    return _BRACES.sub(lambda match: match["braces"] if match["escape"] and _read(match, roots) else match[0], text)


def warning_of(found: BraceText, roots: Collection[str]) -> tuple[str, str]:
    """(message, hint) of a path from an unknown name."""
    if found.path == _TAG:
        return f"{found.written} is literal text", "a prompt with loops and conditions is `prompt: {jinja: …}`"
    close = get_close_matches(str(found.path[0]).lower(), roots, n=1, cutoff=0.75)
    hint = (
        f"did you mean {{{close[0]}…}}?"
        if close
        else "a column is written {source.NAME}; \\{ prints the brace without this warning"
    )
    return f"{found.written} is literal text", hint


def brace_error(found: BraceText, *, jinja: bool = False) -> tuple[str, str]:
    """(message, hint) of a root in another spelling."""
    if found.path == _TAG:
        return warning_of(found, ())
    path = format_expression_path(found.path)
    right = f"{{{{ {path} }}}}" if jinja else f"{{{path}}}"
    if found.path[0] == "output":
        return (
            f"{found.written} is literal text: a prompt has no `output`",
            "write {previous.…} for what an earlier unit gave",
        )
    problem = "is literal text" if found.closed else "has no closing brace"
    return f"{found.written} {problem}", f"write {right}; \\{found.written} prints it literally"


def _read(match: re.Match[str], roots: Collection[str]) -> BraceText | None:
    inner, written = match["inner"], match["braces"]
    if inner[:1] in ("%", "#") and inner[1:].strip(" -%#"):  # a template's own language
        inside = re.search(rf"\b(?:{'|'.join(roots)})[.\[]", inner)
        return BraceText(written, _TAG, "root" if inside else "path") if inside or inner[0] == "%" else None
    core = inner.strip().strip(_SIGILS).strip()
    closed = bool(match["closing"])
    path = _PATH.match(core)
    if path is None:
        return None
    parts: list[str | int] = [path["head"]]
    for step in _STEPS.finditer(path["steps"]):
        parts.append(int(step["index"]) if step["index"] else (step["name"] or step["key"]))
    tail = core[path.end() :]
    root = next((known for known in (*roots, "output") if known.lower() == path["head"].lower()), None)
    if root is not None and root != "index":
        joined = _ROOT_TAIL.fullmatch(tail)
        meant = (root, *parts[1:], *([joined["name"]] if joined and joined["name"] else []))
        whole = _TAIL.fullmatch(tail) or joined
        if not closed and len(parts) > 1 and (whole or not tail[:1].isalnum()):
            return BraceText(written[: written.index(path[0]) + len(path[0])], meant, "root", closed=False)
        if (
            closed
            and whole
            and (len(parts) > 1 or tail[:1] in (":", "/") or (root != "output" and written != f"{{{root}}}"))
        ):
            return BraceText(written, meant, "root")
    if not closed and tail:
        return None
    if _TAIL.fullmatch(tail):
        return BraceText(written, tuple(parts), "path" if len(parts) > 1 else "name", core, closed)
    return BraceText(written, (core,), "name", core, closed) if _WORDS.fullmatch(core) else None
