"""Other extractors on the baseline's replies: how many each reads, and how often it agrees with the unit's own.

How a score is extracted changes it; here the replies are the same, so every difference is the extractor's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import BoundExtractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.fields.types import INTEGER, TEXT, FieldType, RecordType, ScaleType
from verdict_cli.messages import JsonObject, NamedValues, Reply, Request
from verdict_cli.plan.node import Plan
from verdict_cli.run.recorded_replies import recorded_replies


@dataclass(slots=True)
class ReExtraction:
    """One extractor over the replies of one unit.

    ``refused`` says why the extractor does not fit the unit (then nothing was read). Of ``replies``, ``readable``
    could be read, ``both`` by the unit's own extractor too, and ``agreed`` with the same values in the scored fields
    that both give. Free text, such as an explanation, is not compared, unless a unit gives nothing else.
    """

    unit: str
    extractor: str
    refused: str = ""
    replies: int = 0
    readable: int = 0
    both: int = 0
    agreed: int = 0

    def add(
        self,
        reading: NamedValues | None,
        response: NamedValues | None,
        scored: frozenset[str],
    ) -> None:
        """Count a reply as the unit's own extractor and this one read it; None: it could not be read."""
        self.replies += 1
        if response is None:
            return
        self.readable += 1
        shared = set() if reading is None else reading.keys() & response.keys() & scored
        if reading is None or not shared:
            return
        self.both += 1
        self.agreed += all(reading[key] == response[key] for key in shared)


def re_extract(plan: Plan, calls: Path, extractors: Sequence[str], seed: int) -> list[ReExtraction]:
    """Every extractor over every recorded reply, unit by unit. Raises DataError if `calls` is not a table of calls."""
    units = {node.id: work for node, work in plan.llm_nodes}
    readings: dict[str, list[tuple[ReExtraction, BoundExtractor | None]]] = {}
    for unit, work in units.items():
        for name in extractors:
            chosen = _regex(work.response) if name == "regex" else resolve_extractor(name)
            trouble = chosen.validation_error(work.response)
            reader = None if trouble else _held_to(work.response, chosen.bind(work.response))
            reading = ReExtraction(unit, name, trouble[1] if trouble else "")
            readings.setdefault(unit, []).append((reading, reader))
    scored = {unit: _scored(work.response) for unit, work in units.items()}
    for request, reply in recorded_replies(calls, seed):
        unit = request.node
        if unit not in units:
            continue
        own = units[unit].reading
        own_values = None if own.calls > 1 else read_reply(own, reply, request)
        for reading, reader in readings[unit]:
            if reader is not None:
                reading.add(own_values, read_reply(reader, reply, request), scored[unit])
    return [reading for of_unit in readings.values() for reading, _ in of_unit]


def _scored(response: RecordType) -> frozenset[str]:
    """The fields that are compared: all but free text, or all if there is only text."""
    return frozenset(name for name, kind in response.fields.items() if kind != TEXT) or frozenset(
        response.fields
    )


def _held_to(response: RecordType, reading: BoundExtractor) -> BoundExtractor:
    """The reading, in which a value that is not on the unit's scale cannot be read."""
    scales = {name: kind for name, kind in response.fields.items() if isinstance(kind, ScaleType)}

    def read(reply: Reply, request: Request) -> JsonObject:
        values = reading.parse(reply, request)
        for name in scales.keys() & values.keys():
            if reading.output.fields.get(name) == scales[name] or not _between(
                scales[name], values[name]
            ):
                scales[name].read(values[name])
        return values

    return replace(reading, parse=read)


def _between(kind: ScaleType, value: Any) -> bool:
    """Whether the value is a number within a scale of numbers: extractors of probabilities give such means."""
    scale = kind.scale
    if not scale.numeric() or not isinstance(value, int | float):
        return False
    bounds = scale.bounds()
    return bounds is not None and bounds[0] <= value <= bounds[1]


def _regex(response: RecordType) -> RegexExtractor:
    """Patterns for a response: its first number, or the one of its words that the text holds."""
    return RegexExtractor(
        fields={name: _pattern(kind) for name, kind in response.fields.items() if kind != TEXT},
        match="first",
    )


def _pattern(kind: FieldType) -> str:
    if isinstance(kind, ScaleType) and kind.scale.tokens():
        words = [token for token, value in kind.scale.tokens() if isinstance(value, str | bool)]
        if words:
            return r"(?i)(?<!\w)(?:" + "|".join(sorted(words, key=len, reverse=True)) + r")(?!\w)"
        return "FIRST_INT" if kind.json_schema().get("type") == "integer" else "FIRST_FLOAT"
    return "FIRST_INT" if kind == INTEGER else "FIRST_FLOAT"


def read_reply(reader: BoundExtractor, reply: Reply, request: Request) -> JsonObject | None:
    """What the extractor reads; None where it cannot."""
    try:
        return reader.read(reply, request)
    except ReplyError:
        return None
