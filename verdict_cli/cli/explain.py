"""`verdict explain NAME`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_report
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import EXITS, UsageError

if TYPE_CHECKING:
    from verdict_cli.language.reference import ReferenceEntry, ReferenceKey

_WIDTH = 100
_GROUPS = {"unit": "units", "scale": "scales", "extractor": "extractors", "mapping": "other parts of a file"}


def explain(
    name: Annotated[
        str | None, typer.Argument(help="A unit, scale, extractor, key, figure, exit code or the code of a message.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a word of the language means: the same text as the documentation, in the terminal.

    Without NAME it lists every word that it can explain.

    Examples:

      verdict explain JudgeUnit

      verdict explain JudgeUnit.scale

      verdict explain token_probability

      verdict explain cohen_kappa

      verdict explain 3
    """
    found = _everything() if name is None else _found(name)
    if as_json:
        document(found)
        return
    print_report("\n".join(_contents(found) if name is None else _lines(found)) + "\n")


def _everything() -> dict[str, Any]:
    from verdict_cli.language.metric_registry import METRICS
    from verdict_cli.language.reference import entries

    listed: dict[str, Any] = {title: [] for title in _GROUPS.values()}
    for part in entries().values():
        listed[_GROUPS[part.group]].append(part.name)
    return {**listed, "figures": list(METRICS), "exit codes": list(map(str, EXITS))}


def _found(name: str) -> dict[str, Any]:
    """What is known of the name, as a document."""
    from verdict_cli.language.document.error_messages import nearest_spelling
    from verdict_cli.language.metric_registry import METRICS, find_metric
    from verdict_cli.language.reference import entries, offered_parts

    if name.isdecimal() and int(name) in EXITS:
        return {"name": name, "group": "exit code", "text": EXITS[int(name)]}
    parts = entries()
    same = {each.lower(): each for each in (*parts, *METRICS)}
    exact = name if name in parts or name in METRICS else same.get(name.lower(), name)
    if exact in METRICS:
        return {"name": exact, "group": "figure", "text": METRICS[exact].meaning}
    if exact in parts:
        return _part(parts[exact])
    if (part := offered_parts(name)) is not None:
        return _part(part)
    if (metric := find_metric(name)) is not None:
        return {"name": name, "group": "figure", "text": metric.meaning}
    owner, dot, key = name.rpartition(".")
    holders = [part for part in parts.values() if not dot or part.name.lower() == owner.lower()]
    keyed = [(part, one) for part in holders for one in part.keys if one.name == key]
    if keyed:
        return {"name": name, "group": "key", "text": "", "of": _meanings(keyed)}
    known = {one.name for part in holders for one in part.keys} if dot and holders else {*parts, *METRICS}
    keys = {one.name for part in parts.values() for one in part.keys}
    close = nearest_spelling(key if dot and holders else name, known | (set() if dot else keys))
    raise UsageError(
        f"nothing is called {name!r}", hint=close if close.startswith("did") else "verdict explain lists every name"
    )


def _part(part: ReferenceEntry) -> dict[str, Any]:
    own = part.own()
    shared = [key for key in part.keys if key not in own and key.name not in ("unit", "type")]
    return {
        "name": part.name,
        "group": part.group if part.group != "mapping" else "part of a file",
        "text": part.text,
        "keys": [asdict(key) for key in own],
        "shared_keys": [asdict(key) for key in shared],
        "example": asdict(part.example) if part.example is not None else None,
    }


def _meanings(keyed: Iterable[tuple[ReferenceEntry, ReferenceKey]]) -> list[dict[str, Any]]:
    """The key's meanings, each once, with the parts that have it."""
    by_key: dict[ReferenceKey, list[str]] = {}
    for part, key in keyed:
        by_key.setdefault(key, []).append(part.name)
    return [{**asdict(key), "parts": parts} for key, parts in by_key.items()]


def _contents(listed: dict[str, list[str]]) -> Iterator[str]:
    for title, names in listed.items():
        yield title
        yield from textwrap.wrap(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield "\nand every key of these by its own name. More of one: verdict explain NAME"


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['name']} ({found['group']})"
    yield from textwrap.wrap(found["text"], _WIDTH, initial_indent="  ", subsequent_indent="  ")
    for key in found.get("of", ()):
        yield from _key_lines(key)
        yield from textwrap.wrap(
            f"in {', '.join(key['parts'])}", _WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    for title, keys in (("keys", found.get("keys")), ("keys of every such unit", found.get("shared_keys"))):
        if keys:
            yield f"\n{title}:"
            for key in keys:
                yield from _key_lines(key)
    example = found.get("example")
    if example:
        yield f"\nexample, which judges {example['data']}:\n"
        yield textwrap.indent(example["text"].rstrip(), "  ")


def _key_lines(key: dict[str, Any]) -> Iterator[str]:
    default = f", {key['default']} where it is left out" if key["default"] is not None else ""
    needed = ", needed" if key["required"] else ""
    yield f"  {key['name']}: {key['kind'].replace('`', '')}{needed}{default}"
    yield from textwrap.wrap(key["text"], _WIDTH, initial_indent="      ", subsequent_indent="      ")
