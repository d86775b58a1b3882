"""Run one node at one row: from its parents' outputs to its own."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from verdict_cli.errors import ProviderError, Refused, ReplyError, RowError
from verdict_cli.language.expressions.paths import follow
from verdict_cli.language.expressions.value_text import insert
from verdict_cli.language.prompts.few_shot import add_prefix
from verdict_cli.language.prompts.sections import Delimited, add_suffix
from verdict_cli.language.prompts.state_prompt import StatePrompt
from verdict_cli.language.scales.questions import question_form
from verdict_cli.language.units.base import shown
from verdict_cli.llm.model_families import is_decision_model
from verdict_cli.llm.providers.model_checks import with_seen_images
from verdict_cli.messages import Call, JsonObject, Message, NamedValues, Output, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.node import CITATIONS, Cast, LLMNode, Node
from verdict_cli.run.attempts import CallSpec, Context, answer, draw


def written_id(node: Node, row: Row) -> str:
    """The id that the node would have at this entry in a graph with a copy of it for each one: seeds depend on it."""
    entry = row.entry
    if entry is None:
        return node.id
    if node.copies is None or not entry.item.isdigit():
        return f"{node.id}[{entry.item}]"
    index, copies = node.copies
    return (
        node.name
        if entry.count * copies == 1
        else f"{node.name}[{int(entry.item) * copies + index}]"
    )


def node_values(node: Node, row: Row, previous: NamedValues) -> JsonObject:
    """The values of expressions at a node."""
    values = {
        "source": row.source,
        "previous": previous,
        "unit": node.settings,
        "input": _input(node, row, previous),
    }
    return values if row.entry is None else {**values, **row.entry.names}


class NodeAnswer(NamedTuple):
    """A node's answer: the values of expressions, the (first) response, and the output that is passed on."""

    values: JsonObject
    response: JsonObject
    output: JsonObject


async def answer_node(
    node: Node,
    row: Row,
    previous: NamedValues,
    context: Context,
    calls: list[Call],
    stage: int = 0,
) -> NodeAnswer:
    """The answer of one stage of the node; its calls are added to ``calls``.

    Raises ReplyError, ProviderError or RowError.
    """
    work = node.work
    assert isinstance(work, LLMNode)
    values = node_values(node, row, previous)
    given = values["input"]
    written = node.id if row.entry is None else written_id(node, row)
    for letter, option in work.options:
        given[letter] = insert(option(values))
    arrangements = (
        work.unit.option_orders(draw(context.seed, row.draw_id, written)) if work.letters else ((),)
    )
    models = node.stages[stage]
    follow_up = (
        models
        if work.reading.then is not None and work.reading.then.model is None
        else work.follow_up
    )
    first = stage * calls_of(node) if stage else 0
    node_call = _NodeCall(
        node, work, row, context, values, given, arrangements, first, models, follow_up, written
    )
    if len(arrangements) == 1:
        responses = [await node_call.response(0, calls)]
    else:
        responses = await _each(node_call.response, arrangements, calls)
    output = (
        node_call.combined[0]
        if node_call.combined
        else work.unit.combine_responses(responses, arrangements, given)
    )
    if work.cites is not None:
        output = {**output, CITATIONS: work.cites.of(responses)}
    return NodeAnswer(values, responses[0], passed_on(node, work, values, responses[0], output))


def passed_on(
    node: Node,
    work: LLMNode,
    values: JsonObject,
    response: JsonObject,
    output: JsonObject,
) -> JsonObject:
    """What a unit passes on of its output."""
    if work.process is not None:
        output = work.process(values | {"response": response, "output": output})
    if work.kept is not None:
        output = {name: output[name] for name in work.kept if name in output}
    return propagated(node, values, response, output)


async def _each(
    response: Callable[[int, list[Call]], Awaitable[JsonObject]],
    arrangements: Sequence[object],
    calls: list[Call],
) -> list[JsonObject]:
    """The responses to all arrangements, requested concurrently; their calls are added to ``calls`` in order.

    All are waited for, since they are paid for. Then an error that stops the run is raised, else the first failure.
    """
    call_lists: list[list[Call]] = [[] for _ in arrangements]
    outcomes = await asyncio.gather(
        *(response(index, call_list) for index, call_list in enumerate(call_lists)),
        return_exceptions=True,
    )
    calls += [call for call_list in call_lists for call in call_list]
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if errors:
        raise next((error for error in errors if not fails_row(error)), errors[0])
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def fails_row(error: BaseException) -> bool:
    """Whether the error fails only its row. Any other stops the run."""
    return isinstance(error, ReplyError | ProviderError | RowError) and not isinstance(
        error, Refused
    )


class _NodeCall(Struct, frozen=True):
    """What the calls of one node at one row to the same models share. They are numbered from ``first``.

    ``combined`` gets the unit's output with the first response, where there is only one arrangement.
    """

    node: Node
    work: LLMNode
    row: Row
    context: Context
    values: NamedValues
    given: JsonObject
    arrangements: tuple[tuple[int, ...], ...]
    first: int
    models: tuple[Model, ...]
    follow_up: tuple[Model, ...]
    written: str
    combined: list[JsonObject] = []

    async def response(self, index: int, calls: list[Call]) -> JsonObject:
        """The response to one arrangement: one call, or two where the extractor structures the text of the first."""
        work, reading, arrangement = self.work, self.work.reading, self.arrangements[index]
        values = self.values
        if arrangement:
            values = {**values, "input": shown(self.given, work.letters, arrangement)}
        if work.state_prompt is not None and is_decision_model(self.models[0]):
            request = self._question(work.state_prompt, values, index)
            return await self._ask(request, calls)
        rendered = work.prompt.render(values)
        messages, marks = rendered.messages, rendered.marks
        if work.examples is not None:
            messages, marks = add_prefix(messages, marks, work.examples.text(self.row.source))
        suffix = work.fixed_suffix
        if suffix is None:
            suffix = work.suffix(draw(self.context.seed, self.row.draw_id, self.written))
        request = self._request(
            self.models[0],
            with_seen_images(add_suffix(messages, suffix), self.models[0]),
            self.first + index * reading.calls,
            json_schema=reading.json_schema,
            top_logprobs=reading.top_logprobs,
            support=reading.support,
            inserted=rendered.inserted,
            stream=work.unit.streamed,
            marks=marks,
        )
        if reading.then is None:
            return await self._ask(request, calls)
        first = CallSpec(request, self.models, reading, _accept_any)
        text = (await answer(first, self.context, calls))["text"]
        then = reading.then
        second = self._request(
            self.follow_up[0],
            then.messages(Delimited(text) if work.prompt.delimited else text),
            request.call + 1,
            json_schema=then.reading.json_schema,
            inserted=(text,),
        )
        return await answer(
            CallSpec(second, self.follow_up, then.reading, self._accept), self.context, calls
        )

    def _ask(self, request: Request, calls: list[Call]) -> Awaitable[JsonObject]:
        """The response to a request, which is the whole of one."""
        spec = CallSpec(request, self.models, self.work.reading, self._accept)
        return answer(spec, self.context, calls)

    def _question(self, prompt: StatePrompt, values: NamedValues, index: int) -> Request:
        """The request for a decision model."""
        work = self.work
        assert work.judged is not None
        examples = "" if work.examples is None else work.examples.text(self.row.source)
        state = prompt.render(values, examples)
        form = work.fixed_question
        if form is None:
            form = question_form(
                work.judged, draw(self.context.seed, self.row.draw_id, self.written)
            )
        question = form.question(state.instructions)
        return self._request(
            self.models[0],
            (Message("system", question.instructions), *state.messages),
            self.first + index * work.reading.calls,
            inserted=state.inserted,
            questions=(question,),
            has_fields=state.has_fields,
            most_questions=self.node.most_questions,
        )

    def _request(
        self, model: Model, messages: tuple[Message, ...], call: int, **others: Any
    ) -> Request:
        """A request of the unit at this row; ``others`` are further fields."""
        return Request(
            self.row,
            self.node.id,
            model,
            messages,
            call,
            seed=self.context.seed,
            written="" if self.row.entry is None else self.written,
            unit=self.work.unit,
            **others,
        )

    def _accept(self, response: JsonObject) -> None:
        """Raise ReplyError for a response that breaks one of the unit's `validate` rules."""
        output = response
        if len(self.arrangements) == 1:
            output = self.work.unit.combine_responses([response], self.arrangements, self.given)
            self.combined[:] = [output]
        if self.work.cites is not None:
            self.work.cites.check(response, self.values)
        if self.node.rules:
            broken = broken_rule(self.node, {**self.values, "response": response, "output": output})
            if broken:
                raise ReplyError(broken, kind="invalid")


def _accept_any(response: JsonObject) -> None:
    """The text of the first of two calls is checked by the second; the rules of a unit hold for its whole response."""


_ABSENT: Any = object()
"""In place of a value that nothing gives, so that the field's default is used."""


def _cast_value(cast: Cast, row: Row, values: NamedValues) -> Any:
    """The value of an input field: what the path gives, else the row's column, where the field has a default."""
    if cast.path is None:
        return _ABSENT
    try:
        return follow(cast.path, values)
    except RowError:
        if not cast.optional:
            raise
        return row.source.get(cast.field, _ABSENT)


def _input(node: Node, row: Row, previous: NamedValues) -> JsonObject:
    values = {"source": row.source, "previous": previous}
    if row.entry is not None:
        values |= row.entry.names
    given: JsonObject = {}
    for cast in node.casts:
        try:
            value = _cast_value(cast, row, values)
            given[cast.field] = (
                copy.deepcopy(cast.default) if value is _ABSENT else cast.type.read(value)
            )
        except ReplyError as error:
            raise RowError(
                f"the input field {cast.field!r}: {error.message}", kind="input"
            ) from None
    return given


def calls_of(node: Node) -> int:
    """How many calls a unit makes of one stage at a row when every first attempt succeeds."""
    if not isinstance(node.work, LLMNode):
        return 0
    return len(node.work.unit.option_orders(0)) * node.work.reading.calls


def broken_rule(node: Node, values: NamedValues) -> str:
    """A message for the first `validate` rule that does not hold, "" when all hold."""
    return next((f"`{rule.text}` is not true" for rule in node.rules if not rule(values)), "")


def propagated(node: Node, values: NamedValues, response: Output, output: JsonObject) -> JsonObject:
    if node.propagate is None:
        return output
    return node.propagate({**values, "response": response, "output": output})
