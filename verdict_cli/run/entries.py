"""Run the entries of an `each` side by side, and lay out what they give. With `per_call`, several share one call, whose
reply is a list with an answer for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Pending, ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.expressions.entry_lists import Turn
from verdict_cli.messages import Call, Entry, Failure, Row, Stage
from verdict_cli.plan.levels import EachGroup, field_lists, present
from verdict_cli.plan.node import Node
from verdict_cli.run.attempts import EntrySlots
from verdict_cli.run.node_run import fails_row

if TYPE_CHECKING:
    from verdict_cli.run.row import RowRunner


from verdict_cli.language.extractors.bound_extractor import BoundExtractor
from verdict_cli.language.extractors.structured import json_object, repaired
from verdict_cli.language.fields.types import INTEGER, ListType, RecordType
from verdict_cli.language.prompts.few_shot import prefixed
from verdict_cli.language.prompts.sections import suffixed
from verdict_cli.messages import Message, Output, Reply, Request
from verdict_cli.plan.node import LLMNode
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
    node: Node,
    rows: Sequence[Row],
    previous: Mapping[str, Any],
    context: Context,
    calls: list[Call],
) -> list[Output]:
    """The node's output at each of these entries, from one call, which is added to ``calls``.

    Raises ReplyError, ProviderError or RowError. A reply that lacks an entry, or has them in another order, is unreadable.
    """
    work = node.work
    assert isinstance(work, LLMNode)
    row = together(rows)
    written = written_id(node, row)
    numbers = [row.entry.names["index"] for row in rows if row.entry is not None]
    values = [node_values(node, row, previous) for row in rows]
    rendered = [work.prompt.render(names) for names in values]
    shared = _shared([prompt.messages for prompt in rendered], numbers)
    if work.examples is not None:
        shared, _ = prefixed(shared, (), work.examples.text(row.source))
    suffix = work.suffix(draw(context.seed, row.draw_id, written))
    instruction = SEVERAL_ENTRIES.format(count=len(rows))
    reading = _reading(work.response, numbers)
    request = Request(
        row=row,
        node=node.id,
        model=work.models[0],
        messages=suffixed(shared, f"{suffix}\n\n{instruction}" if suffix else instruction),
        json_schema=reading.json_schema,
        inserted=tuple(text for prompt in rendered for text in prompt.inserted),
        seed=context.seed,
        stream=work.unit.streamed,
        written=written,
        unit=work.unit,
    )

    def outputs(response: Mapping[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        entries = [
            {name: entry[name] for name in work.response.fields} for entry in response["entries"]
        ]
        pairs = zip(entries, values, strict=True)
        return [
            (entry, work.unit.combine_responses([entry], ((),), given["input"]))
            for entry, given in pairs
        ]

    def accept(response: dict[str, Any]) -> None:
        for number, given, (entry, output) in zip(numbers, values, outputs(response), strict=True):
            broken = broken_rule(node, {**given, "response": entry, "output": output})
            if broken:
                raise ReplyError(f"entry {number}: {broken}", kind="invalid")

    response, _ = await answer(CallSpec(request, work.models, reading, accept), context, calls)
    return [
        passed_on(node, work, given, entry, output)
        for given, (entry, output) in zip(values, outputs(response), strict=True)
    ]


def _reading(response: RecordType, numbers: Sequence[int]) -> BoundExtractor:
    """How the list of answers is requested and read."""
    numbered = RecordType({"index": INTEGER, **response.fields})
    expected = RecordType({"entries": ListType(numbered)})
    schema = expected.json_schema()
    items = numbered.json_schema()
    items["properties"]["index"] |= {"minimum": numbers[0], "maximum": numbers[-1]}
    schema["properties"]["entries"] |= {
        "items": items,
        "minItems": len(numbers),
        "maxItems": len(numbers),
    }

    def read(reply: Reply, _: Request) -> dict[str, Any]:
        answers = expected.read(json_object(reply.text, cut=reply.finish_reason == "length"))
        indices = [entry["index"] for entry in answers["entries"]]
        if indices != list(numbers):
            raise ReplyError(
                f"the reply judges the entries {indices!r:.200}, expected {list(numbers)!r:.200}, in this order"
            )
        return answers

    return BoundExtractor(
        expected, read, json_schema=schema, corrects=True, deviates=repaired, thoughts="keep"
    )


def _shared(prompts: Sequence[tuple[Message, ...]], numbers: Sequence[int]) -> tuple[Message, ...]:
    """The prompts of several entries as one: the lines at the start and the end that all have, once; between them what each
    has of its own."""
    messages = []
    for same in zip(*prompts, strict=True):
        texts = [message.content.split("\n") for message in same]
        if (
            all(text == texts[0] for text in texts) and len(prompts[0]) > 1
        ):  # such as a system message
            messages.append(same[0])
            continue
        start = _common(texts)
        end = _common([text[start:][::-1] for text in texts])
        own = [
            f'<entry index="{number}">\n' + "\n".join(text[start : len(text) - end]) + "\n</entry>"
            for number, text in zip(numbers, texts, strict=True)
        ]
        messages.append(
            Message(
                same[0].role, "\n".join([*texts[0][:start], *own, *texts[0][len(texts[0]) - end :]])
            )
        )
    return tuple(messages)


def _common(texts: Sequence[Sequence[str]]) -> int:
    """How many lines all begin with; fewer than all of any, so that each keeps some of its own."""
    count = 0
    while count < min(map(len, texts)) - 1 and all(
        text[count] == texts[0][count] for text in texts
    ):
        count += 1
    return count


T = TypeVar("T")


async def run_entries(count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> list[T]:
    """What ``run`` gives for each entry, in order. After an error that stops the run, no further entry is started; those
    that are running are waited for, since their calls are paid for. Entries with a pending call hold back no other."""
    outcomes: list[Any] = [None] * count
    numbers: Iterator[int] = iter(range(count))
    errors: list[VerdictError] = []
    pending: list[Pending] = []
    workers: list[asyncio.Task[None]] = []
    started = 0

    async def work(*, holds_slot: bool) -> None:
        nonlocal started
        try:
            for number in numbers:
                started += 1
                if started < count and slots.free > 0:
                    slots.free -= 1
                    workers.append(asyncio.create_task(work(holds_slot=True)))
                try:
                    outcomes[number] = await run(number)
                except Pending as error:
                    pending.append(error)
                except VerdictError as error:
                    errors.append(error)
                if errors:
                    return
        finally:
            if holds_slot:
                slots.free += 1

    try:
        await work(holds_slot=False)
        while workers:
            await workers.pop()
    finally:
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.gather(*workers, return_exceptions=True)
    if errors or pending:
        raise [*errors, *pending][0]
    return outcomes


def entry_rows(row: Row, group: EachGroup, entries: Sequence[Any]) -> list[Row]:
    """The row with each of the entries."""
    outer = row.entry
    names: Mapping[str, Any] = {} if outer is None else outer.names
    before, key = ("", "") if outer is None else (f"{outer.item}.", outer.key)
    seen: dict[str, int] = {}
    rows = []
    for number, entry in enumerate(entries):
        digest = _digest([key, entry.digest if isinstance(entry, Turn) else entry])
        copy = seen[digest] = seen.get(digest, -1) + 1
        inside = {**names, group.name: entry, "index": number}
        rows.append(
            replace(
                row,
                entry=Entry(
                    f"{before}{number}",
                    inside,
                    len(entries),
                    f"{digest}.{copy}" if copy else digest,
                ),
            )
        )
    return rows


def _digest(value: Any) -> str:
    """A digest of a value of the row: equal for equal content."""
    try:
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # beyond 64 bits, half a surrogate pair, or deeply nested
        content = repr(value).encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=8).hexdigest()


def shown_names(row: Row, group: EachGroup) -> dict[str, Any]:
    """The entries that a unit inside sees, by name, as the results have them: turns without the messages before them."""
    assert row.entry is not None
    names = {name: entry for name, entry in row.entry.names.items() if name != "index"}
    if isinstance(names[group.name], Turn):
        names[group.name] = names[group.name].row_columns()
    return names


async def fan_out(runner: RowRunner, head: int) -> EachOutcome:
    """What the units inside an `each` give for every entry of its list. ``runner`` is that of the row, which takes the outcome."""
    number = runner.level.groups[head]
    group, node = runner.plan.groups[number], runner.plan.nodes[head]
    try:
        rows = entry_rows(runner.row, group, group.list_of(runner.values()))
    except RowError as error:
        return EachOutcome(entry_failure(runner.row, node, error.failure, str(error)))

    async def run_entry(index: int) -> _EntryOutcome:
        inner = runner.inside(rows[index], runner.plan.inner_levels[number])
        result = await inner.run()
        outputs = [inner.outputs[unit] for unit in group.nodes]
        return _EntryOutcome(
            outputs,
            result.failure,
            result.calls,
            inner.abstained,
            inner.skipped,
            result.saved,
            result.stages,
            result.entries,
        )

    async def run_chunk(index: int) -> list[_EntryOutcome]:
        assert group.per_call is not None
        chunk = rows[index * group.per_call : (index + 1) * group.per_call]
        if len(chunk) == 1:
            return [await run_entry(index * group.per_call)]
        return await _run_together(runner, node, chunk)

    # All questions of a row wait for one another, in one request to a decision model.
    slots = EntrySlots(len(rows)) if _asks_decisions(node) else runner.context.slots
    # A unit inside a further `each`, or one that needs a skipped unit, has no call that several entries could share.
    is_shared = len(node.groups) == 1 + len(group.around) and runner.skipped.isdisjoint(node.needs)
    if group.per_call is None or not is_shared:
        entries = await run_entries(len(rows), run_entry, slots)
    else:
        chunks = await run_entries(-(-len(rows) // group.per_call), run_chunk, slots)
        entries = [entry for chunk in chunks for entry in chunk]
    return _gathered(runner, number, rows, entries)


def _asks_decisions(node: Node) -> bool:
    return isinstance(node.work, LLMNode) and node.work.state_prompt is not None


def _gathered(
    runner: RowRunner, number: int, rows: Sequence[Row], entries: Sequence[_EntryOutcome]
) -> EachOutcome:
    """The outcomes of all entries as that of their `each`."""
    nodes, group = runner.plan.nodes, runner.plan.groups[number]
    outcome = EachOutcome(
        next((entry.failure for entry in entries if entry.failure is not None), None),
        [call for entry in entries for call in entry.calls],
        {
            index: [entry.outputs[position] for entry in entries]
            for position, index in enumerate(group.nodes)
        },
    )
    names = [shown_names(row, group) for row in rows]
    for index in group.nodes:
        if nodes[index].groups[-1] == number:
            shown = [
                None if index in entry.skipped else name
                for name, entry in zip(names, entries, strict=True)
            ]
            outcome.entries[index] = shown
        else:
            outcome.entries[index] = [entry.entries.get(index) for entry in entries]
    for entry in entries:
        for pool, count in entry.saved.items():
            outcome.saved[pool] = outcome.saved.get(pool, 0) + count
        outcome.add_stages(entry.stages)
    depth = 0 if runner.row.entry is None else 1 + runner.row.entry.item.count(".")
    for index in group.nodes if outcome.failure is None else ():
        node = nodes[index]
        if entries and all(index in entry.skipped for entry in entries):
            outcome.skipped.add(index)
        if any(index in entry.abstained for entry in entries):
            outcome.abstained.add(index)
        levels = len(node.groups) - depth
        left = outcome.previous[node.id] = present(outcome.outputs[index], levels)
        for name in node.output.fields:
            outcome.previous[f"{node.id}.{name}"] = field_lists(left, name, levels)
    return outcome


def has_output(output: Any) -> bool:
    """Whether there is an output; of a unit inside `each`, whether any entry has one."""
    return any(map(has_output, output)) if isinstance(output, list) else output is not None


def is_empty(output: Any) -> bool:
    """Whether it is a list without entries, also inside its entries."""
    return isinstance(output, list) and all(map(is_empty, output))


class EachOutcome(Struct):
    """What an `each` gives. Of one that failed, only the calls, the outputs and what is counted matter."""

    failure: Failure | None
    calls: list[Call] = []
    outputs: dict[int, list[Any]] = {}
    """For each unit inside, its output at every entry."""
    entries: dict[int, list[Any]] = {}
    """For each unit inside, the names that it saw at every entry."""
    previous: dict[str, Any] = {}
    """What later units see of the units inside, and of each of their fields: lists without what was skipped."""
    skipped: set[int] = set()
    """The units that were skipped at every entry."""
    abstained: set[int] = set()
    """The units that abstained at any entry."""
    saved: dict[str, int] = {}
    """The calls that early stopping avoided, by pool."""
    stages: dict[str, tuple[Stage, ...]] = {}

    def add_stages(self, stages: Mapping[str, tuple[Stage, ...]]) -> None:
        """Add the stages of one entry to those of the others."""
        for unit, counts in stages.items():
            known = self.stages.get(unit)
            self.stages[unit] = (
                counts
                if known is None
                else tuple(before.plus(stage) for before, stage in zip(known, counts, strict=True))
            )


class _EntryOutcome(Struct):
    """What is kept of an entry once it has been run."""

    outputs: list[Any]
    failure: Failure | None
    calls: Sequence[Call]
    abstained: AbstractSet[int] = frozenset()
    skipped: AbstractSet[int] = frozenset()
    saved: Mapping[str, int] = MappingProxyType({})
    stages: Mapping[str, tuple[Stage, ...]] = MappingProxyType({})
    entries: Mapping[int, Any] = MappingProxyType({})


async def _run_together(runner: RowRunner, node: Node, rows: Sequence[Row]) -> list[_EntryOutcome]:
    """Run the only unit at several entries by one call, which is counted as the first entry's."""
    calls: list[Call] = []
    failure = None
    outputs: Sequence[Any] = [None] * len(rows)
    try:
        with runner.context.unit(node.id) as ended:
            outputs = await answer_together(node, rows, runner.previous, runner.context, calls)
            ended(None)
    except (ReplyError, ProviderError, RowError) as error:
        if not fails_row(error):
            raise
        failure = (
            None if node.skips else entry_failure(together(rows), node, error.failure, str(error))
        )
    outcomes = [_EntryOutcome([output], None, ()) for output in outputs]
    outcomes[0].failure, outcomes[0].calls = failure, calls
    return outcomes


def entry_failure(row: Row, node: Node, kind: str, message: str) -> Failure:
    """A failure of a unit at a row, or at one of its entries, whose number it names."""
    return Failure(kind, f"entry {row.item}: {message}" if row.item else message, node.id)
