"""What a provider's prompt cache could serve of a run's prompts, from those of a dry run, and which order of texts hinders it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verdict_cli.errors import Problem
from verdict_cli.language.expressions.paths import format_expression_path
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.llm.prompt_prefix import TOKEN_BYTES, PromptPrefixes, cacheable_minimum, marked_bytes, written
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import Request, Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plan.shared_prefix import takes_marks

if TYPE_CHECKING:
    from verdict_cli.run.estimate import Line, UnitModel

_MOST_KEPT = 20_000
"""The most prefixes that are remembered, as by a run."""
_SAMPLE = 10
"""The rows whose prompts are compared for hints."""
_WORTH = 0.25
"""A hint is given for this share of a prompt or more."""


@dataclass(slots=True)
class _Sums:
    prompt: int = 0
    cached: int = 0
    cost: float | None = 0.0
    cached_cost: float | None = 0.0

    def add(self, model: Model, usage: Usage) -> None:
        self.prompt += usage.prompt_tokens
        self.cached += usage.cached_tokens
        self.cost = _sum(self.cost, cost_usd(model, Usage(usage.prompt_tokens, usage.completion_tokens)))
        self.cached_cost = _sum(self.cached_cost, cost_usd(model, usage))


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Prompt tokens that begin like those of an earlier call, and the cost with the provider's cache (None: unknown)."""

    prompt_tokens: int
    cached_tokens: int
    cost_usd: float | None

    @property
    def share(self) -> float:
        """The share of the prompt tokens."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class PromptSharing:
    """Follows the prompts of a dry run, in order, as the provider's cache would see them."""

    def __init__(self) -> None:
        self.sample: dict[int, dict[str, Request]] = {}
        self._prefixes = PromptPrefixes()
        self._known: dict[bytes, None] = {}
        self._sums: dict[UnitModel, _Sums] = {}

    def add(self, request: Request, prompt: int, completion: int) -> None:
        """Note a request and its tokens."""
        prefixes = self._prefixes.of(request)
        usage = self._usage(request, prefixes, prompt, completion) if prefixes else Usage(prompt, completion)
        self._sums.setdefault((request.node, request.model.name), _Sums()).add(request.model, usage)
        index = request.row.index
        if prefixes and (index in self.sample or len(self.sample) < _SAMPLE):
            self.sample.setdefault(index, {}).setdefault(request.node, request)

    def _usage(self, request: Request, prefixes: Sequence[tuple[int, bytes]], prompt: int, completion: int) -> Usage:
        is_marked = takes_marks(request.model)
        if is_marked:
            last = marked_bytes(request)
            prefixes = [each for each in prefixes if each[0] <= last]
        each_byte = prompt / len(written(request.messages))
        sizes = [round(each_byte * size) for size, _ in prefixes]
        cached = max(
            (size for size, (_, known) in zip(sizes, prefixes, strict=True) if known in self._known), default=0
        )
        self._remember([digest for _, digest in prefixes])
        return Usage(prompt, completion, cached, max([0, *sizes]) - cached if is_marked else 0)

    def _remember(self, digests: Sequence[bytes]) -> None:
        if len(self._known) > _MOST_KEPT:
            for digest in [*self._known][: _MOST_KEPT // 2]:
                del self._known[digest]
        self._known.update(dict.fromkeys(digests))

    def part(self, lines: Sequence[Line]) -> SharedPart:
        """The shared part of the calls of these lines of an estimate."""
        prompt, cached, cost = 0, 0.0, 0.0
        is_known = True
        for line in lines:
            sums = self._sums.get((line.unit, line.model))
            if sums is None or line.prompt_tokens is None:
                is_known = is_known and line.calls == 0
                continue
            prompt += line.prompt_tokens
            cached += line.prompt_tokens * sums.cached / max(1, sums.prompt)
            if line.cost_usd is None or sums.cost is None or sums.cached_cost is None:
                is_known = False
            else:
                cost += line.cost_usd * (sums.cached_cost / sums.cost if sums.cost else 1.0)
        return SharedPart(prompt, round(cached), cost if is_known else None)


def order_hints(plan: Plan, sample: Mapping[int, Mapping[str, Request]]) -> list[Problem]:
    """A hint for each unit whose prompt has what changes before a long text that other calls share."""
    nodes = {node.id: node for node in plan.nodes}
    hints: dict[str, Problem] = {}
    for requests in sample.values():
        sent = [(nodes[node], request) for node, request in requests.items() if node in nodes]
        for place, (node, request) in enumerate(sent):
            if node.name not in hints:
                found = next(_after_another_text(node, request, sent[:place]), None) or _after_the_row(node, request)
                if found is not None and not _shares_already(request, sent):
                    hints[node.name] = found
    return list(hints.values())


def _after_another_text(node: Node, request: Request, others: Sequence[tuple[Node, Request]]) -> Iterator[Problem]:
    """A text of the row that an earlier unit's prompt has too, behind words that are not that unit's."""
    mine = _text(request)
    for other, asked in others:
        if asked.model != request.model or asked.json_schema != request.json_schema:
            continue
        its = _text(asked)
        shared = len(_shared_start(mine, its))
        for text in sorted({*request.inserted} & {*asked.inserted}, key=len, reverse=True):
            if not _is_long(request, text) or min(mine.find(text), its.find(text)) + len(text) <= shared:
                continue
            share = len(text) / len(mine)
            if share >= _WORTH:
                yield Problem(
                    "prompt-cache-order",
                    f"{node.id}: {_placeholder(node, request, text)} is in the prompt of {other.id} too, but different texts "
                    f"precede it there, so the provider's cache cannot serve it: {share:.0%} of this prompt",
                    f"begin the prompts of {node.name} and {other.name} with it, in the same message, "
                    "and put what differs behind it",
                )


def _after_the_row(node: Node, request: Request) -> Problem | None:
    """The unit's own words behind the first text of the row, where they alone are long enough to be cached."""
    prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
    if not isinstance(prompt, PlaceholderPrompt):
        return None
    parts = [part for _, section in prompt.sections for part in section]
    first = next((place for place, part in enumerate(parts) if not isinstance(part, str)), len(parts))
    before, after = ("".join(part for part in some if isinstance(part, str)) for some in (parts[:first], parts[first:]))
    share = len(after) / max(1, len(_text(request)))
    if _is_long(request, before) or not _is_long(request, after) or share < _WORTH:
        return None
    return Problem(
        "prompt-cache-order",
        f"{node.id}: words that all rows share follow the row's text, so the provider's cache cannot serve them: "
        f"{share:.0%} of this prompt",
        f"put them before {{{format_expression_path(prompt.slots[0].written)}}}",
    )


def _shares_already(request: Request, sent: Sequence[tuple[Node, Request]]) -> bool:
    """Whether the prompt begins like another unit's for long enough."""
    mine = _text(request)
    return any(
        asked is not request
        and asked.model == request.model
        and asked.json_schema == request.json_schema
        and _is_long(request, _shared_start(mine, _text(asked)))
        for _, asked in sent
    )


def _is_long(request: Request, text: str) -> bool:
    least = cacheable_minimum(request.model)
    return least is not None and len(text.encode(errors="surrogatepass")) >= least * TOKEN_BYTES


def _shared_start(one: str, other: str) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))]


def _text(request: Request) -> str:
    return written(request.messages).decode(errors="surrogatepass")


def _placeholder(node: Node, request: Request, text: str) -> str:
    """The placeholder that inserted the text."""
    prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
    if isinstance(prompt, PlaceholderPrompt):
        shown = [slot for slot in prompt.slots if not slot.image and slot.paths[0][0] not in ("unit", "index")]
        for slot, inserted in zip(shown, request.inserted, strict=False):
            if inserted == text:
                return f"{{{format_expression_path(slot.written)}}}"
    return "a text of the row"


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
