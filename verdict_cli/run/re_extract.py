"""Several extractors on the same stored replies: what each reads, and where they disagree.

How a score is extracted changes it; here the replies are the same, so every difference is the extractor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem, ReplyError
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import BoundExtractor, Extractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.fields.types import INTEGER, TEXT, FieldType, RecordType, ScaleType
from verdict_cli.llm.providers.wire_values import read_logprobs
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.storage.tables.reader import read_table

OWN_EXTRACTOR = "own"
"""The name of the unit's own extractor."""
_COLUMNS = ("row", "id", "unit", "call", "attempt", "reply", "finish_reason", "logprobs")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One reply that an extractor reads differently from the unit's own; None: it could not be read."""

    id: str | int
    unit: str
    extractor: str
    own: Mapping[str, Any] | None
    read: Mapping[str, Any] | None
    reason: str


@dataclass(frozen=True, slots=True)
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


def re_extract(
    plan: Plan, calls: Path, extractors: Sequence[str], *, seed: int = 0, most: int = 100
) -> tuple[tuple[ReExtraction, ...], tuple[Disagreement, ...]]:
    """Every extractor over every recorded reply, unit by unit, and the first `most` disagreements.

    Raises DataError if `calls` is not a table of calls.
    """
    together = {
        node for group in plan.groups if group.per_call is not None for node in group.nodes
    }  # replies are lists
    units = {node.id: node.work for node in plan.nodes if isinstance(node.work, LLMNode) and node.index not in together}
    readers = {unit: _readers(work, extractors) for unit, work in units.items()}
    scored = {unit: _scored(work.response) for unit, work in units.items()}
    counts = {(unit, name): [0, 0, 0, 0] for unit, named in readers.items() for name in named}
    disagreements: list[Disagreement] = []
    for request, reply in recorded_replies(calls, seed):
        named = readers.get(request.node, {})
        own = _read(named.get(OWN_EXTRACTOR), reply, request)[0]
        for name, reader in named.items():
            if isinstance(reader, str):
                continue
            response, reason = _read(reader, reply, request)
            count = counts[request.node, name]
            shared = (
                own.keys() & response.keys() & scored[request.node]
                if own is not None and response is not None
                else set()
            )
            same = own is not None and response is not None and all(own[key] == response[key] for key in shared)
            count[0] += 1
            count[1] += response is not None
            count[2] += bool(shared)
            count[3] += bool(shared) and same
            if (
                not same
                and not (own is None and response is None)
                and len(disagreements) < most
                and name != OWN_EXTRACTOR
            ):
                disagreements.append(Disagreement(request.row.id, request.node, name, own, response, reason))
    rereadings = tuple(
        ReExtraction(unit, name, reader)
        if isinstance(reader, str)
        else ReExtraction(unit, name, "", *counts[unit, name])
        for unit, named in readers.items()
        for name, reader in named.items()
    )
    return rereadings, tuple(disagreements)


def _scored(response: RecordType) -> frozenset[str]:
    """The fields that are compared: all but free text, or all if there is only text."""
    return frozenset(name for name, kind in response.fields.items() if kind != TEXT) or frozenset(response.fields)


def _readers(work: LLMNode, extractors: Sequence[str]) -> dict[str, BoundExtractor | str]:
    """A reading by name; the reason where an extractor does not fit the unit."""
    readers: dict[str, BoundExtractor | str] = {
        OWN_EXTRACTOR: work.reading if work.reading.calls == 1 else "it reads several replies together"
    }
    for name in extractors:
        chosen: Extractor = _regex(work.response) if name == "regex" else resolve_extractor(name)
        trouble = chosen.validation_error(work.response)
        readers[name] = trouble[1] if trouble else _held_to(work.response, chosen.bind(work.response))
    return readers


def _held_to(response: RecordType, reading: BoundExtractor) -> BoundExtractor:
    """The reading, in which a value that is not on the unit's scale cannot be read."""
    scales = {name: kind for name, kind in response.fields.items() if isinstance(kind, ScaleType)}

    def read(reply: Reply, request: Request) -> dict[str, Any]:
        values = reading.parse(reply, request)
        for name in scales.keys() & values.keys():
            if reading.output.fields.get(name) == scales[name] or not _between(scales[name], values[name]):
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
        fields={name: _pattern(kind) for name, kind in response.fields.items() if kind != TEXT}, match="first"
    )


def _pattern(kind: FieldType) -> str:
    if isinstance(kind, ScaleType) and kind.scale.tokens():
        words = [token for token, value in kind.scale.tokens() if isinstance(value, str | bool)]
        if words:
            return r"(?i)(?<!\w)(?:" + "|".join(sorted(words, key=len, reverse=True)) + r")(?!\w)"
        return "FIRST_INT" if kind.json_schema().get("type") == "integer" else "FIRST_FLOAT"
    return "FIRST_INT" if kind == INTEGER else "FIRST_FLOAT"


def _read(reader: BoundExtractor | str | None, reply: Reply, request: Request) -> tuple[dict[str, Any] | None, str]:
    if reader is None or isinstance(reader, str):
        return None, ""
    try:
        return reader.read(reply, request), ""
    except ReplyError as error:
        return None, error.message


def recorded_replies(calls: Path, seed: int) -> Iterator[tuple[Request, Reply]]:
    """Each recorded reply and the request that it answered, as far as extractors look at it."""
    model = Model(name="recorded")
    for batch in read_table(calls, _COLUMNS):
        for row, identity, unit, call, attempt, text, finish, logprobs in zip(
            *(batch[name] for name in _COLUMNS), strict=True
        ):
            if text is not None:
                request = Request(
                    Row(row, identity if identity is not None else row, {}), unit, model, (), call, attempt, seed=seed
                )
                yield request, Reply(text, finish or "stop", _logprobs(logprobs))


def _logprobs(logprobs: Any) -> Any:
    """The log-probabilities of a call; runs of earlier versions have them as JSON text."""
    import orjson

    try:
        return (
            None
            if logprobs is None
            else read_logprobs(orjson.loads(logprobs) if isinstance(logprobs, str) else logprobs)
        )
    except ValueError as fault:
        message = f"log-probabilities that no run writes: {fault}"
        raise DataError(Problem("not-a-run", message, "run the pipeline again", "calls.parquet")) from None
