"""How much of a run's prompts begins like an earlier prompt, so that a provider's cache may serve it, and which order of texts
prevents that. Both are read from the prompts of a dry run, by the lengths of their prefixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from verdict_cli.errors import Problem
from verdict_cli.language.expressions.paths import format_expression_path
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.llm.prompt_prefix import TOKEN_BYTES, PromptPrefixes, cacheable_minimum, marked_bytes, written
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import Request, Usage
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plan.shared_prefix import takes_marks

if TYPE_CHECKING:
    from verdict_cli.run.estimate import Line, UnitModel

_SAMPLE = 10
"""The rows whose prompts are compared for hints."""
_WORTH = 0.25
"""A hint is given for this share of a prompt or more."""


class SharedPart(Struct, frozen=True):
    """Prompt tokens that begin like those of an earlier call, and the cost with the provider's cache (None: unknown)."""

    prompt_tokens: int
    cached_tokens: int
    cost_usd: float | None

    @property
    def share(self) -> float:
        """The share of the prompt tokens."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(slots=True)
class _Sums:
    """Tokens and cost of one unit's calls of one model, without and with the provider's cache."""

    prompt: int = 0
    cached: int = 0
    cost: float | None = 0.0
    cached_cost: float | None = 0.0


class PromptSharing:
    """Follows the prompts of a dry run. ``sample`` has the first request of each unit in the first rows with long prompts."""

    def __init__(self) -> None:
        self.sample: dict[int, dict[str, Request]] = {}
        self._prefixes = PromptPrefixes()
        self._row = -1
        self._of_row: set[bytes] = set()
        self._of_row_before: set[bytes] = set()  # what all rows share is in it, too
        self._sums: dict[UnitModel, _Sums] = {}

    def add(self, request: Request, prompt: int, completion: int) -> None:
        """Note a request and its tokens."""
        index, model = request.row.index, request.model
        if index != self._row:
            self._row, self._of_row_before, self._of_row = index, self._of_row, set()
        prefixes = self._prefixes.of(request)
        if prefixes and (index in self.sample or len(self.sample) < _SAMPLE):
            self.sample.setdefault(index, {}).setdefault(request.node, request)
        is_marked = takes_marks(model)
        if is_marked:
            last = marked_bytes(request)
            prefixes = [(size, digest) for size, digest in prefixes if size <= last]
        known = [size for size, digest in prefixes if digest in self._of_row or digest in self._of_row_before]
        self._of_row.update(digest for _, digest in prefixes)
        byte = prompt / len(written(request.messages)) if prefixes else 0.0
        cached = round(byte * max(known, default=0))
        # Anthropic charges for writing what is marked; the others write for nothing.
        new = round(byte * prefixes[-1][0]) - cached if is_marked and prefixes else 0
        sums = self._sums.setdefault((request.node, model.name), _Sums())
        sums.prompt += prompt
        sums.cached += cached
        sums.cost = _sum(sums.cost, cost_usd(model, Usage(prompt, completion)))
        sums.cached_cost = _sum(sums.cached_cost, cost_usd(model, Usage(prompt, completion, cached, new)))

    def part(self, lines: Sequence[Line]) -> SharedPart:
        """The shared part of the calls of these lines of an estimate."""
        prompt, cached = 0, 0.0
        cost: float | None = 0.0
        for line in lines:
            sums = self._sums.get((line.unit, line.model))
            if sums is None or line.prompt_tokens is None:
                cost = cost if line.calls == 0 else None
                continue
            prompt += line.prompt_tokens
            cached += line.prompt_tokens * sums.cached / max(1, sums.prompt)
            if line.cost_usd is None or sums.cost is None or sums.cached_cost is None:
                cost = None
            elif cost is not None:
                cost += line.cost_usd * (sums.cached_cost / sums.cost if sums.cost else 1.0)
        return SharedPart(prompt, round(cached), cost)


def order_hints(plan: Plan, sample: Mapping[int, Mapping[str, Request]]) -> list[Problem]:
    """A hint for each unit whose prompt has what changes before a long text that other calls share."""
    nodes = {node.id: node for node in plan.nodes}
    prefixes = PromptPrefixes()
    hints: dict[str, Problem] = {}
    for requests in sample.values():
        sent = [(nodes[unit], request) for unit, request in requests.items() if unit in nodes]
        starts = [prefixes.of(request)[0] for _, request in sent]
        calls = Counter(starts)
        for number, (node, request) in enumerate(sent):
            if node.name in hints or calls[starts[number]] > 1:  # it begins like another for long enough
                continue
            hint = _after_another_text(node, request, sent[:number]) or _after_the_row(node, request)
            if hint is not None:
                hints[node.name] = hint
    return list(hints.values())


def _after_another_text(node: Node, request: Request, earlier: Sequence[tuple[Node, Request]]) -> Problem | None:
    """A text of the row that an earlier unit's prompt has too, behind words that are not that unit's."""
    for other, asked in earlier:
        shared = [text for text in {*request.inserted} & {*asked.inserted} if _is_long(request, text)]
        text = max(shared, key=len, default="")
        share = len(text) / max(1, len(_text(request)))
        if share >= _WORTH and request.model == asked.model and request.json_schema == asked.json_schema:
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
    first = next((index for index, part in enumerate(parts) if not isinstance(part, str)), len(parts))
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


def _is_long(request: Request, text: str) -> bool:
    least = cacheable_minimum(request.model)
    return least is not None and len(text.encode(errors="surrogatepass")) >= least * TOKEN_BYTES


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


def _sum(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost
