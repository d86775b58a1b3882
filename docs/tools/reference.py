"""Write the pages of docs/reference from the classes that read pipeline files and from the help of the commands.

`python docs/tools/reference.py` writes them, `--check` exits with 1 if a page is out of date.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from typer.testing import CliRunner

from verdict_cli.cli.app import COMMANDS, app
from verdict_cli.language.reference import ReferenceEntry, ReferenceKey, entries, shared_keys
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, RESULT_COLUMNS, RunColumn

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"
NOTE = (
    "<!-- Written by `make reference` from the classes that read pipeline files; not by hand. -->"
)
WORD = re.compile(r"\b[A-Z][A-Za-z]+\b|\b(?:scale|extractor|step)\b")


def main() -> None:
    """Write the pages, or with `--check` list the ones that are out of date."""
    os.environ["COLUMNS"] = "100"
    pages = {
        "file": file_page(),
        "units": units_page(),
        "scales": group_page("scale", "Scales", SCALES),
        "extractors": group_page("extractor", "Extractors", EXTRACTORS),
        "commands": commands_page(),
        "tables": tables_page(),
    }
    old = []
    for name, text in pages.items():
        path = PAGES / f"{name}.md"
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(path.relative_to(ROOT).as_posix())
    if old:
        sys.exit(f"out of date: {', '.join(old)}; run `make reference`")


SCALES = """A scale is the domain of a judge's values. It is named under `scales:` or written inline; `likert` (1 to 5) and
`boolean` (yes or no) need no keys. [Spelling and reading of values](../language.md#scales)."""

EXTRACTORS = """An extractor determines how a response is requested and read from the reply: `extract: argmax_score`, or with keys
`extract: {type: regex, fields: {score: LAST_INT}}`. [What is rejected instead of guessed](../language.md#extractors)."""

UNITS = """A unit is a step that calls a model, or computes from the outputs of earlier units. Each example is a complete pipeline from
`configs/examples`, followed by its output for the sample's first row. The examples use the embedded `baseline/lexical` (needs no key and no
network, and is not an LLM judge); replace it with any other model."""

TABLES = """A run writes two Parquet tables. In tables of earlier versions, a column that a later version added is read as null."""

UNIT_COLUMNS = """Then come `source.NAME` for each column of the dataset, `UNIT.FIELD` for each field of a unit's output, and `output.FIELD` for
those of the last unit."""

FILE = """The keys of a pipeline file and of everything in it, as in the output of `verdict schema` for editors.
[The language](../language.md) explains how they work together. [Units](units.md), [scales](scales.md) and
[extractors](extractors.md) have separate pages."""


def file_page() -> str:
    """The file, then each mapping in it."""
    parts = [part for part in entries().values() if part.group == "mapping"]
    return page("A pipeline file", FILE, (line for part in parts for line in section(part)))


def units_page() -> str:
    """Each unit, then the shared keys."""
    parts = [part for part in entries().values() if part.group == "unit"]
    asking = shared_keys(asking=True)
    everywhere = shared_keys(asking=False)
    rest = tuple(key for key in asking if key not in everywhere)
    shared = [
        "## Keys of every unit",
        "",
        *table(everywhere),
        "",
        "## Keys of every unit that calls a model",
        "",
        *table(rest),
        "",
    ]
    return page("Units", UNITS, [*(line for part in parts for line in section(part)), *shared])


def group_page(group: str, title: str, text: str) -> str:
    """Each part of a group."""
    parts = [part for part in entries().values() if part.group == group]
    return page(title, text, (line for part in parts for line in section(part)))


def commands_page() -> str:
    """The `--help` of each command."""
    lines: list[str] = []
    for name in COMMANDS.names():
        lines += [f"## verdict {name}", "", "```text", said([name]), "```", ""]
        for each in re.findall(
            r"^  ([a-z]+)  ", said([name]).partition("Commands:\n")[2], re.MULTILINE
        ):
            lines += [f"### verdict {name} {each}", "", "```text", said([name, each]), "```", ""]
    text = "The output of `verdict COMMAND --help`. [Exit codes](../language.md#running)."
    return page("Commands", text, lines)


def tables_page() -> str:
    """The columns of results and of calls."""
    lines = ["## results.parquet", "", *columns_table(RESULT_COLUMNS), "", UNIT_COLUMNS, ""]
    lines += ["## calls.parquet", "", *columns_table(CALL_COLUMNS)]
    return page("Tables", TABLES, lines)


def columns_table(columns: Iterable[RunColumn]) -> list[str]:
    """A Markdown table of columns."""
    lines = ["| Column | Type | Content |", "| --- | --- | --- |"]
    for column in columns:
        kind = COLUMN_TYPES.get(column.kind, column.kind)
        if column.declared is not None and column.declared.shape is None:
            kind = "JSON text"
        lines.append(f"| `{column.name}` | {kind} | {cell(column.meaning)} |")
    return lines


COLUMN_TYPES = {
    "null": "that of the data",
    "native": "list",
    "str": "text",
    "int": "integer",
    "float": "number",
}


def said(words: list[str]) -> str:
    """The help of a command."""
    text = CliRunner().invoke(app, [*words, "--help"], prog_name="verdict").output
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def page(title: str, text: str, lines: Iterable[str]) -> str:
    """A page with a title."""
    return "\n".join([f"# {title}", "", NOTE, "", text, "", *lines]).rstrip() + "\n"


def section(part: ReferenceEntry) -> Iterator[str]:
    """A part: its text, its own keys, its example and what that gives."""
    yield from (
        f"## {part.name[:1].upper() + part.name[1:] if part.group == 'mapping' else part.name}",
        "",
    )
    yield from (part.text, "")
    own = part.own()
    if own:
        yield from (*table(own), "")
    if part.example is not None and not part.text.startswith("Another name"):
        yield from (
            "```yaml",
            part.example.text.rstrip(),
            "```",
            "",
            "```json",
            given(part),
            "```",
            "",
        )


def given(part: ReferenceEntry) -> str:
    """The output for the sample's first row."""
    assert part.example is not None
    with (ROOT / part.example.data).open(encoding="utf-8") as data:
        row = data.readline()
    words = ["judge", str(ROOT / part.example.file), "--row", row, "--json", "--quiet"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return json.dumps(json.loads(done.stdout)["output"], ensure_ascii=False)


def table(keys: Iterable[ReferenceKey]) -> list[str]:
    """A Markdown table of keys."""
    return ["| Key | Value | Default | Meaning |", "| --- | --- | --- | --- |", *map(row, keys)]


def row(key: ReferenceKey) -> str:
    """A key's line, with links to the mappings that its value may be."""
    default = "required" if key.required else f"`{key.default}`" if key.default is not None else ""
    kind = WORD.sub(lambda word: linked(word[0]), key.kind) if "`" not in key.kind else key.kind
    return f"| `{key.name}` | {cell(kind)} | {default} | {cell(key.text)} |"


def linked(word: str) -> str:
    """The word as a link to the part of that name."""
    places = {"scale": "scales.md", "extractor": "extractors.md", "step": "file.md#layerstep"}
    place = places.get(word, f"file.md#{word.lower()}")
    return f"[{word}]({place})" if word in places or word in entries() else word


def cell(text: str) -> str:
    """The text in one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
