"""What PyYAML says about the syntax, in plain words."""

from __future__ import annotations

import re
from typing import Any

from yaml.error import MarkedYAMLError

# Patterns in what PyYAML says, the message, the hint. {0} is the pattern's first group; an empty hint is found
# by _why from the line itself.
_QUOTES = "Put the text into quotes, or below its key as a block scalar: `prompt: |`."
_SAID: tuple[tuple[str, str, str], ...] = (
    (r"found character '\\t'", "a tab is used for indentation", "Indent with spaces."),
    (r"found character ('.')", "text cannot begin with {0} unless it stands in quotes", _QUOTES),
    (r"could not find expected ':'", "this line is no `key: value`", "Write a colon and a space behind the key. Long text stands in quotes, or below its key as a block scalar: `prompt: |`."),
    (r"mapping values are not", "a `:` cannot stand here", ""),
    (r"sequence entries are not", "a list item `- ` cannot stand here", "Begin a list on a line of its own below its key; put text that begins with `- ` into quotes."),
    (r"mapping keys are not", "`? ` cannot stand here", _QUOTES),
    (r"quoted scalar: found unexpected", "this quote is never closed", "Close it. Inside single quotes an apostrophe is doubled: 'it''s'."),
    (r"unknown escape character ['\"](.+)['\"]", "`\\{0}` is no escape in double quotes", "Write `\\\\` for a backslash, or use single quotes."),
    (r"escape sequence of (\d) hexa", "an escape in double quotes needs {0} hexadecimal digits here", "Write `\\\\` for a backslash, or use single quotes."),
    (r"scanning an (anchor|alias)", "this is no name of an {0}", "A name has letters, digits, `-` and `_`; text that begins with `*` or `&` must stand in quotes."),
    (r"scanning a block scalar", "only `+`, `-` or a digit from 1 to 9 may follow `|` or `>` on its line", "Begin the text on the next line, indented."),
    (r"directive|YAML document|tag handle|a tag\b", "a directive or tag cannot be read: {problem}", "Text that begins with `%` or `!` must stand in quotes."),
    (r"flow mapping.*got '(.+)'", "the `{{` of line {line} is not closed: expected `,` or `}}`, found {token}", "Text that contains braces must stand in quotes or in a block scalar: `prompt: |`. A key and its colon stand on one line."),
    (r"flow sequence.*got '(.+)'", "the `[` of line {line} is not closed: expected `,` or `]`, found {token}", "Text that contains brackets must stand in quotes or in a block scalar: `prompt: |`."),
    (r"block mapping.*found '(.+)'", "{token} cannot stand here, in the mapping that begins on line {line}", ""),
    (r"block collection.*found '(.+)'", "{token} cannot stand here, in the list that begins on line {line}", ""),
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
    """Code, message, hint and mark for what PyYAML says about the syntax of ``text``."""
    said = f"{error.context}: {error.problem}"
    begun, at = error.context_mark, error.problem_mark
    match, message, hint = next(
        (match, message, hint) for pattern, message, hint in _SAID if (match := re.search(pattern, said))
    )
    found = match[1] if match.re.groups else ""
    token = _TOKENS.get(found, f"`{found.strip('<>')}`")
    message = message.format(found, token=token, line=begun.line + 1 if begun else 0, problem=error.problem)
    cause_is_earlier = "could not find" in said or "scalar: found unexpected" in said
    line = "" if at is None else text[at.index - at.column :].partition("\n")[0]
    if quote := _TYPOGRAPHIC.search(line):
        hint = f"{quote[1]} is a typographic quote, which YAML takes for a letter: write \" or '."
    elif at is not None and not hint:
        hint = _why(text[at.index - at.column : at.index].strip(" "))
    return "yaml-syntax", message, hint, begun if cause_is_earlier else at


_TYPOGRAPHIC = re.compile(r"(?:[:-] |[\[{,] *)([“”„‘’«»])")
"""A value that begins with a quote which is none to YAML."""


def _why(before: str) -> str:
    """The likely cause when something stands where it cannot, from the text before it on its line."""
    if "\t" in before:
        return f"A tab cannot stand in unquoted text. {_QUOTES}"
    if before[-1:] in ("'", '"', "}", "]"):
        return f"Nothing may follow the closing {before[-1]} on its line. {_QUOTES}"
    if ": " in before:
        return f"Unquoted text cannot contain a colon with a space behind it. {_QUOTES}"
    return (
        "Indent the line as those around it; see also that every key above has a colon and a space behind it."
    )
