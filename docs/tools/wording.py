"""Find retired words in the project's texts.

The list is the table "Retired words" of style.md beside this file. Checked are comments and strings of Python and JavaScript,
the text of HTML, comments of CSS, strings of JSON, and whole pages and configurations but for the keys.

`python docs/tools/wording.py [PATH…]` prints `file:line: word -> better` and exits with 1 where it finds one.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STYLE = Path(__file__).with_name("style.md")
CHECKED = (
    "verdict_cli/**/*.py",
    "verdict_cli/**/*.pyi",
    "verdict_cli/**/*.js",
    "verdict_cli/**/*.html",
    "verdict_cli/**/*.css",
    "configs/**/*.yaml",
    "datasets/*.md",
    "datasets/*.yaml",
    "docs/**/*.md",
    "docs/tools/*.py",
    "benchmarks/*.md",
    "benchmarks/*.py",
    "examples/*",
    "schemas/*.json",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "action.yml",
    "mkdocs.yml",
)

CODE = "\0"
"""Replaces code, so that a phrase is found in adjacent strings but not across code."""

JS_TEXT = re.compile(
    r"//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`", re.DOTALL
)
MARKUP = re.compile(r"<script\b.*?</script>|<style\b.*?</style>|<[^>]*>", re.DOTALL)
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
JSON_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"")
YAML_NAME = re.compile(r"^[ ]*(?:- )?[\w-]+:(?:[ ]+[^\s\"'#]+[ ]*$)?", re.MULTILINE)
"""A key, with its value where that is a single word."""

STRINGS = {tokenize.STRING} | {
    getattr(tokenize, name)
    for name in ("FSTRING_MIDDLE", "FSTRING_START", "FSTRING_END")
    if hasattr(tokenize, name)
}
QUOTES = re.compile(r"\A[A-Za-z]{0,2}(\"\"\"|'''|\"|'|`)|(\"\"\"|'''|\"|'|`)\Z")

INTERPOLATED = re.compile(r"[A-Za-z]?[fF][A-Za-z]?[\"']|`")
EXPRESSION = re.compile(r"\$?\{[^{}]*\}")
"""Python before 3.12 gives an f-string as one token, its expressions included."""


def retired(page: str) -> dict[str, str]:
    """The retired phrases of the style page, and what to write instead."""
    table = page.partition("## Retired words")[2].partition("\n## ")[0]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2:
            found.update(dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[1]))
    return found


def pattern(phrases: dict[str, str]) -> re.Pattern[str]:
    """One expression for all phrases, the longest first; a phrase may continue on the next line."""
    space = r"(?:\s|(?<=\n)[ \t]*#)+"
    each = (
        space.join(re.escape(word) for word in phrase.split())
        for phrase in sorted(phrases, key=len, reverse=True)
    )
    return re.compile(rf"(?<![\w./'-])(?:{'|'.join(each)})(?![\w=(-]|\s+\d)", re.IGNORECASE)


def blank(text: str) -> str:
    """Code of the same length and with the same lines, without its words."""
    return re.sub(r"[^\s]", CODE, text)


def prose(text: str, continued: bool = False) -> str:
    """A comment or a string without its quotes. A lone string without a space is a value, not prose."""
    if INTERPOLATED.match(text):
        text = EXPRESSION.sub(lambda code: blank(code[0]), text)
    inside = QUOTES.sub(lambda quote: " " * len(quote[0]), text).replace("\\n", "  ")
    return inside if continued or len(inside.split()) > 1 else blank(text)


def of_python(text: str) -> str:
    """The comments and strings of a Python file."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kept = list(blank(text))
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = [
        each
        for each in tokenize.generate_tokens(io.StringIO(text).readline)
        if each.type not in layout
    ]
    for index, token in enumerate(tokens):
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.COMMENT:
            kept[start:end] = " " + text[start + 1 : end]
        elif token.type in STRINGS:
            beside = tokens[max(index - 1, 0) : index] + tokens[index + 1 : index + 2]
            kept[start:end] = prose(text[start:end], any(each.type in STRINGS for each in beside))
    return "".join(kept)


def of_matches(keep: re.Pattern[str]) -> Callable[[str], str]:
    """Only what matches, such as comments and strings."""

    def reader(text: str) -> str:
        parts, last = [], 0
        for found in keep.finditer(text):
            parts += [blank(text[last : found.start()]), prose(found[0])]
            last = found.end()
        return "".join([*parts, blank(text[last:])])

    return reader


def of_html(text: str) -> str:
    """The text between the tags."""
    return MARKUP.sub(lambda tag: blank(tag[0]), text)


def of_yaml(text: str) -> str:
    """All but keys and values of one word."""
    return YAML_NAME.sub(lambda name: blank(name[0]), text)


READERS: dict[str, Callable[[str], str]] = {
    ".py": of_python,
    ".pyi": of_python,
    ".js": of_matches(JS_TEXT),
    ".css": of_matches(CSS_COMMENT),
    ".html": of_html,
    ".json": of_matches(JSON_STRING),
    ".yaml": of_yaml,
    ".yml": of_yaml,
}


def findings(text: str, suffix: str, phrases: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """Line, retired phrase, and what to write instead."""
    read = READERS.get(suffix, str)(text)
    for found in pattern(phrases).finditer(read):
        phrase = " ".join(found[0].replace("#", " ").split())
        yield text.count("\n", 0, found.start()) + 1, phrase, phrases[phrase.lower()]


def main() -> int:
    """Check the given files, or all."""
    phrases = retired(STYLE.read_text(encoding="utf-8"))
    if not phrases:
        sys.stdout.write(f"{STYLE.relative_to(ROOT)}: no table of retired words\n")
        return 1
    given = [Path(name).resolve() for name in sys.argv[1:]]
    paths = given or sorted(
        {path for each in CHECKED for path in ROOT.glob(each) if path.is_file()}
    )
    count = 0
    for path in paths:
        if path == STYLE or path == Path(__file__).resolve():
            continue
        for line, phrase, better in findings(
            path.read_text(encoding="utf-8"), path.suffix, phrases
        ):
            place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            sys.stdout.write(f"{place}:{line}: {phrase} -> {better}\n")
            count += 1
    if count:
        sys.stdout.write(f"{count} retired words; see docs/tools/style.md\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
