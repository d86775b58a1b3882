"""`per_call`: several entries of an `each` in one call, whose reply is a list with an answer for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.bound_extractor import BoundExtractor
from verdict_cli.language.extractors.structured import json_object, repaired
from verdict_cli.language.fields.types import INTEGER, ListType, RecordType
from verdict_cli.language.prompts.few_shot import prefixed
from verdict_cli.language.prompts.sections import suffixed
from verdict_cli.messages import Call, Entry, Message, Output, Reply, Request, Row
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.run.attempts import CallSpec, Context, answer, draw
from verdict_cli.run.node_run import broken_rule, node_values, passed_on, written_id

SEVERAL_ENTRIES = (
    "There are {count} entries. Judge each of them by itself, as if it were the only one. Answer with a list `entries` of "
    "{count} objects, one for each entry, in their order, each with the entry's `index` and the fields asked for."
)
"""What is added to a prompt with several entries."""


def together(rows: Sequence[Row]) -> Row:
    """The row with several entries as one: `0-9`, inside another entry `3.0-9`."""
    first, last = rows[0].entry, rows[-1].entry
    assert first is not None
    assert last is not None
    item = f"{first.item}-{last.item.rpartition('.')[2]}"
    keys = "|".join(row.entry.key for row in rows if row.entry is not None)
    key = blake2b(keys.encode(), digest_size=8).hexdigest()
    return replace(rows[0], entry=Entry(item, first.names, first.count, key))


async def answer_together(
    node: Node, rows: Sequence[Row], previous: Mapping[str, Any], context: Context, calls: list[Call]
) -> list[Output]:
    """The node's output at each of these entries, from one call, which is added to ``calls``.

    Raises ReplyError, ProviderError or RowError. A reply that lacks an entry, or has them in another order, is unreadable.
    """
    work = node.work
    assert isinstance(work, LLMNode)
    row = together(rows)
    written = written_id(node, row)
    places = [each.entry.names["index"] for each in rows if each.entry is not None]
    values = [node_values(node, each, previous) for each in rows]
    rendered = [work.prompt.render(each) for each in values]
    shared = _shared([each.messages for each in rendered], places)
    if work.examples is not None:
        shared, _ = prefixed(shared, (), work.examples.text(row.source))
    suffix = work.suffix(draw(context.seed, row.lot, written))
    instruction = SEVERAL_ENTRIES.format(count=len(rows))
    reading = _reading(work.response, places)
    request = Request(
        row=row,
        node=node.id,
        model=work.models[0],
        messages=suffixed(shared, f"{suffix}\n\n{instruction}" if suffix else instruction),
        json_schema=reading.json_schema,
        inserted=tuple(text for each in rendered for text in each.inserted),
        seed=context.seed,
        stream=work.unit.streamed,
        written=written,
    )

    def outputs(response: Mapping[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        found = [{name: entry[name] for name in work.response.fields} for entry in response["entries"]]
        pairs = zip(found, values, strict=True)
        return [(one, work.unit.combine_responses([one], ((),), given["input"])) for one, given in pairs]

    def accept(response: dict[str, Any]) -> None:
        for place, given, (one, output) in zip(places, values, outputs(response), strict=True):
            broken = broken_rule(node, {**given, "response": one, "output": output})
            if broken:
                raise ReplyError(f"entry {place}: {broken}", kind="invalid")

    response, _ = await answer(CallSpec(request, work.models, reading, accept), context, calls)
    return [
        passed_on(node, work, given, one, output)
        for given, (one, output) in zip(values, outputs(response), strict=True)
    ]


def _reading(response: RecordType, places: Sequence[int]) -> BoundExtractor:
    """How the list of answers is requested and read."""
    numbered = RecordType({"index": INTEGER, **response.fields})
    expected = RecordType({"entries": ListType(numbered)})
    schema = expected.json_schema()
    items = numbered.json_schema()
    items["properties"]["index"] |= {"minimum": places[0], "maximum": places[-1]}
    schema["properties"]["entries"] |= {"items": items, "minItems": len(places), "maxItems": len(places)}

    def read(reply: Reply, _: Request) -> dict[str, Any]:
        found = expected.read(json_object(reply.text, cut=reply.finish_reason == "length"))
        indices = [entry["index"] for entry in found["entries"]]
        if indices != list(places):
            raise ReplyError(
                f"the reply judges the entries {indices!r:.200}, expected {list(places)!r:.200}, in this order"
            )
        return found

    return BoundExtractor(expected, read, json_schema=schema, corrects=True, deviates=repaired, thoughts="keep")


def _shared(prompts: Sequence[tuple[Message, ...]], places: Sequence[int]) -> tuple[Message, ...]:
    """The prompts of several entries as one: the lines at the start and the end that all have, once; between them what each
    has of its own."""
    messages = []
    for same in zip(*prompts, strict=True):
        texts = [message.content.split("\n") for message in same]
        if all(text == texts[0] for text in texts) and len(prompts[0]) > 1:  # such as a system message
            messages.append(same[0])
            continue
        start = _common(texts)
        end = _common([text[start:][::-1] for text in texts])
        own = [
            f'<entry index="{place}">\n' + "\n".join(text[start : len(text) - end]) + "\n</entry>"
            for place, text in zip(places, texts, strict=True)
        ]
        messages.append(Message(same[0].role, "\n".join([*texts[0][:start], *own, *texts[0][len(texts[0]) - end :]])))
    return tuple(messages)


def _common(texts: Sequence[Sequence[str]]) -> int:
    """How many lines all begin with; fewer than all of any, so that each keeps some of its own."""
    count = 0
    while count < min(map(len, texts)) - 1 and all(text[count] == texts[0][count] for text in texts):
        count += 1
    return count
