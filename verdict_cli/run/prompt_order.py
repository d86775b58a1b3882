"""Hints on the order of a prompt's texts, for the provider's prompt cache: read from the prompts of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from verdict_cli.errors import Problem
from verdict_cli.language.expressions.paths import format_expression_path
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.llm.prompt_prefix import (
    TOKEN_BYTES,
    PromptPrefixes,
    cacheable_minimum,
    message_bytes,
)
from verdict_cli.messages import Request
from verdict_cli.plan.node import LLMNode, Node, Plan

_SAMPLE = 10
"""The rows whose prompts are compared for hints."""
_WORTH = 0.25
"""A hint is given for this share of a prompt or more."""


class PromptOrder:
    """The first request of each unit in the first rows with long prompts."""

    def __init__(self) -> None:
        self._sample: dict[int, dict[str, Request]] = {}
        self._prefixes = PromptPrefixes()

    def add(self, request: Request) -> None:
        """Keep the request where it is in one of these rows."""
        index = request.row.index
        if index not in self._sample and len(self._sample) >= _SAMPLE:
            return
        if self._prefixes.of(request):
            self._sample.setdefault(index, {}).setdefault(request.node, request)

    def hints(self, plan: Plan) -> list[Problem]:
        """A hint for each unit whose prompt has what changes before a long text that other calls share."""
        return _order_hints(plan, self._sample)


def _order_hints(plan: Plan, sample: Mapping[int, Mapping[str, Request]]) -> list[Problem]:
    nodes = {node.id: node for node in plan.nodes}
    prefixes = PromptPrefixes()
    hints: dict[str, Problem] = {}
    for requests in sample.values():
        sent = [(nodes[unit], request) for unit, request in requests.items() if unit in nodes]
        starts = [prefixes.of(request)[0] for _, request in sent]
        calls = Counter(starts)
        for number, (node, request) in enumerate(sent):
            if (
                node.name in hints or calls[starts[number]] > 1
            ):  # it begins like another for long enough
                continue
            hint = _after_another_text(node, request, sent[:number]) or _after_the_row(
                node, request
            )
            if hint is not None:
                hints[node.name] = hint
    return list(hints.values())


def _after_another_text(
    node: Node, request: Request, earlier: Sequence[tuple[Node, Request]]
) -> Problem | None:
    """A text of the row that an earlier unit's prompt has too, behind words that are not that unit's."""
    for other, asked in earlier:
        shared = [
            text for text in {*request.inserted} & {*asked.inserted} if _is_long(request, text)
        ]
        text = max(shared, key=len, default="")
        share = len(text) / max(1, len(_text(request)))
        if (
            share >= _WORTH
            and request.model == asked.model
            and request.json_schema == asked.json_schema
        ):
            return Problem(
                "prompt-cache-order",
                f"{node.id}: {_placeholder(node, request, text)} is in the prompt of {other.id} too, but different texts "
                f"precede it there, so the provider's cache cannot serve it: {share:.0%} of this prompt",
                f"begin the prompts of {node.name} and {other.name} with it, in the same message, "
                "and put what differs behind it",
            )
    return None


def _after_the_row(node: Node, request: Request) -> Problem | None:
    """The unit's own words behind the first text of the row, where they alone are long enough to be cached."""
    prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
    if not isinstance(prompt, PlaceholderPrompt):
        return None
    parts = [part for _, section in prompt.sections for part in section]
    first = next(
        (index for index, part in enumerate(parts) if not isinstance(part, str)), len(parts)
    )
    before, after = (
        "".join(part for part in some if isinstance(part, str))
        for some in (parts[:first], parts[first:])
    )
    share = len(after) / max(1, len(_text(request)))
    if _is_long(request, before) or not _is_long(request, after) or share < _WORTH:
        return None
    return Problem(
        "prompt-cache-order",
        f"{node.id}: words that all rows share follow the row's text, so the provider's cache cannot serve them: "
        f"{share:.0%} of this prompt",
        f"put them before {{{format_expression_path(prompt.slots[0].written)}}}",
    )


def _is_long(request: Request, text: str) -> bool:
    least = cacheable_minimum(request.model)
    return least is not None and len(text.encode(errors="surrogatepass")) >= least * TOKEN_BYTES


def _text(request: Request) -> str:
    return message_bytes(request.messages).decode(errors="surrogatepass")


def _placeholder(node: Node, request: Request, text: str) -> str:
    """The placeholder that inserted the text."""
    prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
    if isinstance(prompt, PlaceholderPrompt):
        slots = [slot for slot in prompt.slots if slot.is_of_row and not slot.image]
        for slot, inserted in zip(slots, request.inserted, strict=False):
            if inserted == text:
                return f"{{{format_expression_path(slot.written)}}}"
    return "a text of the row"
