"""What describes the language of pipeline files: `verdict explain NAME`, `verdict units`, `verdict schema`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from verdict_cli.cli import completion
from verdict_cli.cli.console import print_json, print_message, print_report
from verdict_cli.cli.options import AsJson
from verdict_cli.config_model import key_descriptions
from verdict_cli.errors import EXITS, UsageError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.json_schema import file_schema
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.language.reference import ReferenceEntry, ReferenceKey, entries, plugin_entry
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase, snake
from verdict_cli.messages import JsonObject
from verdict_cli.registry import feature_part
from verdict_cli.storage.paths import output_errors

_WIDTH = 100
_GROUPS = {
    "unit": "units",
    "scale": "scales",
    "extractor": "extractors",
    "mapping": "other parts of a file",
}


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A unit, scale, extractor, key, metric or exit code.",
            autocompletion=completion.explained,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a name of the pipeline language, a metric or an exit code. The text is that of the documentation.

    Without NAME, list every name that it can explain.

    Examples:

      verdict explain JudgeUnit

      verdict explain JudgeUnit.scale

      verdict explain token_probability

      verdict explain cohen_kappa

      verdict explain 3
    """
    content = _index() if name is None else _lookup(name)
    if as_json:
        print_json(content)
        return
    print_report("\n".join(_index_lines(content) if name is None else _lines(content)) + "\n")


def _index() -> JsonObject:
    index: JsonObject = {title: [] for title in _GROUPS.values()}
    for part in entries().values():
        index[_GROUPS[part.group]].append(part.name)
    return {**index, "metrics": list(METRICS.shipped()), "exit codes": list(map(str, EXITS))}


def _lookup(name: str) -> JsonObject:
    """Look up a name. UsageError if nothing has it."""
    if name.isdecimal() and int(name) in EXITS:
        return {"name": name, "group": "exit code", "text": EXITS[int(name)]}
    parts, metrics = entries(), METRICS.shipped()
    by_lower = {term.lower(): term for term in (*parts, *metrics)}
    exact = name if name in parts or name in metrics else by_lower.get(name.lower(), name)
    part = parts.get(exact)
    metric = METRICS[exact] if exact in metrics else None
    if part is None and metric is None:  # only then, because it searches the installed packages
        part, metric = plugin_entry(name), find_metric(name)
    if part is not None:
        return _part(part)
    if metric is not None:
        return {"name": exact, "group": "metric", "text": metric.meaning}
    owner, dot, key = name.rpartition(".")
    holders = [part for part in parts.values() if not dot or part.name.lower() == owner.lower()]
    keys = [(part, part_key) for part in holders for part_key in part.keys]
    matches = [(part, part_key) for part, part_key in keys if part_key.name == key]
    if matches:
        return {"name": name, "group": "key", "text": "", "of": _meanings(matches)}
    names = {part_key.name for _, part_key in keys}
    wanted = key
    if not dot or not holders:
        names |= {*parts, *metrics}
        wanted = name
    raise UsageError(f"nothing is called {name!r}", hint=_close(wanted, names))


def _close(name: str, names: set[str]) -> str:
    """The names that the given one is part of, as `pairwise` is of PairwiseJudgeUnit, else the nearest one."""
    within = [word for word in names if len(name) > 3 and name.lower() in word.lower()]
    if within:
        within.sort(key=lambda word: (word.islower(), word))
        return f"did you mean {', '.join(within[:4])}?"
    return nearest_spelling(name, names, most=0) or "verdict explain lists every name"


def _part(part: ReferenceEntry) -> JsonObject:
    part_keys = part.own()
    shared = [key for key in part.keys if key not in part_keys and key.name not in ("unit", "type")]
    return {
        "name": part.name,
        "group": part.group if part.group != "mapping" else "part of a file",
        "text": part.text,
        "keys": [asdict(key) for key in part_keys],
        "shared_keys": [asdict(key) for key in shared],
        "example": asdict(part.example) if part.example is not None else None,
    }


def _meanings(matches: Iterable[tuple[ReferenceEntry, ReferenceKey]]) -> list[JsonObject]:
    """The distinct meanings of a key, each with the parts that have it."""
    by_key: dict[ReferenceKey, list[str]] = {}
    for part, key in matches:
        by_key.setdefault(key, []).append(part.name)
    return [{**asdict(key), "parts": parts} for key, parts in by_key.items()]


def _wrapped(text: str, indent: int) -> list[str]:
    spaces = " " * indent
    return textwrap.wrap(text, _WIDTH, initial_indent=spaces, subsequent_indent=spaces)


def _index_lines(index: dict[str, list[str]]) -> Iterator[str]:
    for title, names in index.items():
        yield title
        yield from _wrapped(", ".join(names), 2)
    yield "\nKeys of these can be explained too. Usage: verdict explain NAME"


def _lines(content: JsonObject) -> Iterator[str]:
    yield f"{content['name']} ({content['group']})"
    yield from _wrapped(content["text"], 2)
    for key in content.get("of", ()):
        yield from _key_lines(key)
        yield from _wrapped(f"in {', '.join(key['parts'])}", 6)
    for title, name in (("keys", "keys"), ("keys of every such unit", "shared_keys")):
        if content.get(name):
            yield f"\n{title}:"
            for key in content[name]:
                yield from _key_lines(key)
    example = content.get("example")
    if example:
        yield f"\nexample, which judges {example['data']}:\n"
        yield textwrap.indent(example["text"].rstrip(), "  ")


def _key_lines(key: JsonObject) -> Iterator[str]:
    default = f", default {key['default']}" if key["default"] is not None else ""
    required = ", required" if key["required"] else ""
    yield f"  {key['name']}: {key['kind'].replace('`', '')}{required}{default}"
    yield from _wrapped(key["text"], 6)


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help="`pipeline`, `card` for data cards, or `published` for tables of published results."
        ),
    ] = "pipeline",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Print the JSON Schema of pipeline files for editors, including the unit types of installed packages; or that of data
    cards or tables of published results.

    Example: verdict schema --out pipeline.schema.json
    """
    content = _schema(kind)
    if out is None:
        print_json(content)
        return

    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    print_message(f"written: {out}")


def _schema(kind: str) -> JsonObject:
    from verdict_cli.language.evaluations import Published
    from verdict_cli.language.json_schema import complete_schema

    files = {
        "published": Published,
        "card": feature_part("benchmarks", "card.Card"),
        "study": feature_part("sweep", "study_file.Study"),
    }
    if kind == "pipeline":
        return dict(complete_schema())
    file = files.get(kind)
    if file is None:
        installed = ["pipeline", *(name for name, part in files.items() if part is not None)]
        raise UsageError(
            f"there is no schema {kind!r}", hint=f"the schemas are {', '.join(installed)}"
        )
    return file_schema(file)


def units(
    name: Annotated[str | None, typer.Argument(help="A unit type; prints all its keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the unit types, or the keys of one.

    Example: verdict units JudgeUnit
    """
    chosen = {title: TYPES[title] for title in TYPES if name in (None, title)}
    if not chosen:
        raise UsageError(f"unknown unit type {name!r}", hint=nearest_spelling(str(name), TYPES))
    if as_json:
        print_json([_description(title, kind) for title, kind in chosen.items()])
        return
    width = max(len(title) for title in chosen)
    for title, kind in chosen.items():
        print_report(f"{title:{width}}  {_summary(kind)}\n")
        if name is not None:
            for key, text in key_descriptions(kind).items():
                print_report(f"    {key}: {text}\n")


def _description(name: str, kind: type[UnitBase]) -> JsonObject:
    return {
        "unit": name,
        "name": snake(name),
        "asks_a_model": kind.calls_model,
        "description": _summary(kind),
        "keys": key_descriptions(kind),
    }


def _summary(kind: type[UnitBase]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]
