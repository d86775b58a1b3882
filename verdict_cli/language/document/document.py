"""Read a YAML file into values with positions, with syntax errors in plain words."""

from __future__ import annotations

import codecs
import pathlib
import re
from difflib import get_close_matches
from typing import Any

from yaml.error import MarkedYAMLError
from yaml.reader import Reader

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.composer import Composer, Events
from verdict_cli.language.document.source_positions import Document, Position

MAX_BYTES = 10 * 1024 * 1024
_MARK_WITHIN = re.compile(r"(?<=[^\s,\[\]{}])\?")
"""A question mark that does not begin a scalar."""


def read_document(path: pathlib.Path) -> Document:
    """The document in a file. Raises SpecError when it cannot be opened or is not a YAML mapping."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError([Problem("not-found", "there is no such file", _nearest_file(path), file)]) from None
    except IsADirectoryError:
        hint = "Name a pipeline file in it."
        raise SpecError([Problem("not-a-file", "this is a directory, not a file", hint, file)]) from None
    except PermissionError:
        hint = "Check who may read it: `ls -l`."
        raise SpecError([Problem("not-readable", "no permission to read this file", hint, file)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError([Problem("not-readable", f"the file cannot be read: {reason}", "", file)]) from None
    return parse_document(text, file)


def _nearest_file(path: pathlib.Path) -> str:
    """The hint for a file that is missing."""
    from verdict_cli.language.package_files import configs

    if path.stem in configs():
        return f"The pipeline {path.stem} comes with verdict: give its name, {path.stem}, without folder and ending."
    if not path.parent.is_dir():
        return f"There is no directory {path.parent} either."
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.with_name(near[0])}?" if near else "Check the file's name."


def parse_document(text: bytes, file: str) -> Document:
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
    used = set(map(ord, set(decoded))) | {int(code, 16) for code in re.findall(r"\\U([0-9a-fA-F]{8})", decoded)}
    free = (code for code in range(0xF0000, 0x10FFFE) if code not in used)
    away = dict(zip(map(ord, "\x85\u2028\u2029\ufeff"), free, strict=False))
    back = {code: chr(special) for special, code in away.items()}
    # In `{note: str?, …}` PyYAML takes the question mark for an indicator; in YAML 1.2 it is one only before a space.
    mark = next(free)
    back[mark] = "?"
    source = Events(_MARK_WITHIN.sub(chr(mark), decoded.translate(away)))
    tree = Composer(file, back)
    try:
        while source.check_event():
            tree.take(source.get_event())  # type: ignore[no-untyped-call]
    except MarkedYAMLError as error:
        tree.stop(*plain_words(error, source.buffer))
    except (ValueError, OverflowError):
        # chr() and int() refuse `"\UFFFFFFFF"` and an endless number after `%YAML`; PyYAML does not catch these errors.
        hint = "`\\U` goes up to `\\U0010FFFF`."
        tree.stop("yaml-syntax", "a number is out of range", hint, source.get_mark())
    return tree.finish()


def _decode(text: bytes, file: str) -> str:
    """The text without its byte order mark; UTF-8 and printable, or SpecError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        message = "the file is UTF-16 or UTF-32, expected UTF-8"
        raise SpecError([Problem("not-utf8", message, "Save it as UTF-8.", file, 1, 1)])
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        at = _end_of(text[: error.start].decode("utf-8"))
        message = f"byte 0x{text[error.start]:02x} is not valid UTF-8"
        raise SpecError([Problem("not-utf8", message, "Save the file as UTF-8.", file, at.line, at.column)]) from None
    bad = Reader.NON_PRINTABLE.search(decoded)
    if bad:
        at = _end_of(decoded[: bad.start()])
        message = f"the control character U+{ord(bad[0]):04X} is not allowed in YAML"
        hint = 'Remove it, or write it as an escape in double quotes, such as "\\x07".'
        raise SpecError([Problem("control-character", message, hint, file, at.line, at.column)])
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
    begun, at = error.context_mark, error.problem_mark
    match, message, hint = next(
        (match, message, hint) for pattern, message, hint in _MESSAGES if (match := re.search(pattern, original))
    )
    found = match[1] if match.re.groups else ""
    token = _TOKENS.get(found, f"`{found.strip('<>')}`")
    message = message.format(found, token=token, line=begun.line + 1 if begun else 0, problem=error.problem)
    cause_is_earlier = "could not find" in original or "scalar: found unexpected" in original
    line = "" if at is None else text[at.index - at.column :].partition("\n")[0]
    if quote := _TYPOGRAPHIC.search(line):
        hint = f"{quote[1]} is a typographic quote, which is a letter to YAML: write \" or '."
    elif at is not None and not hint:
        hint = _why(text[at.index - at.column : at.index].strip(" "))
    return "yaml-syntax", message, hint, begun if cause_is_earlier else at


_TYPOGRAPHIC = re.compile(r"(?:[:-] |[\[{,] *)([“”„‘’«»])")
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
