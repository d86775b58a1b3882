"""The budget of a run that sends batches: what is in flight counts at batch prices, and a wave that does not fit is not sent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from verdict_cli.errors import BudgetError
from verdict_cli.features.batches.batch_interfaces import TIER
from verdict_cli.features.batches.ledger import TokenCounts
from verdict_cli.features.batches.request_file import RequestFile
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.providers.price_book import cost_usd, list_price_usd
from verdict_cli.messages import Usage
from verdict_cli.model import Model

FIRST_REPLY_TOKENS = 120
"""The assumed length of a reply while a model has given none: about what `verdict estimate` assumes."""
ENOUGH_REPLIES = 20
"""Replies after which a model's own mean length counts."""


@dataclass
class WaveBudget:
    """What waves are expected to cost, and what is spent. ``spending`` is shared with ordinary calls."""

    spending: Spending
    _counts: defaultdict[str, TokenCounts] = field(default_factory=lambda: defaultdict(TokenCounts))

    def learn(self, model: Model, counts: TokenCounts) -> None:
        """Learn how many tokens a model's prompts and replies have."""
        self._counts[model.name].add(counts)

    def knows(self, model: Model) -> bool:
        """Whether the model has given enough replies to know their length."""
        return self._counts[model.name].replies >= ENOUGH_REPLIES

    def expected_usd(self, model: Model, file: RequestFile) -> float:
        """What a request file is expected to cost at batch prices; 0 where the price is unknown."""
        if not file.count:
            return 0.0
        counts = self._counts[model.name]
        prompt = file.tokens / file.count
        if self.knows(model):
            reply = counts.completion / counts.replies
            prompt *= counts.prompt / counts.estimated if counts.estimated else 1.0
        else:
            reply = min(FIRST_REPLY_TOKENS, model.max_tokens or FIRST_REPLY_TOKENS)
        # Rates may depend on a prompt's length: one request's price, times their number.
        return file.count * (batch_price(model, Usage(round(prompt), round(reply))) or 0.0)

    def fitting(self, waves: list[tuple[Model, RequestFile]]) -> list[tuple[Model, RequestFile, int]]:
        """How many requests of each file may be sent.

        All of a wave, or none: then BudgetError. Only while the length of a model's replies is not known, a part that fits by
        a cautious guess is sent, from which it is learned.
        """
        self.spending.spend(0.0)
        self.spending.check()
        budget = self.spending.budget_usd
        if budget is None:
            return [(model, file, file.count) for model, file in waves]
        room = budget - self.spending.spent_usd
        expected = {id(file): self.expected_usd(model, file) for model, file in waves}
        total = sum(expected.values())
        if total <= room:
            return [(model, file, file.count) for model, file in waves]
        if all(self.knows(model) for model, _ in waves):
            raise self._spent(total, room)
        chosen = []
        for model, file in waves:
            cost = expected[id(file)]
            count = file.count if cost <= room else int(file.count * room / cost)
            chosen.append((model, file, count))
            room -= cost * count / file.count
        if not any(count for _, _, count in chosen):
            raise self._spent(total, room)
        return chosen

    def reserve(self, expected_usd: float) -> None:
        """Count what a batch in flight is expected to cost."""
        self.spending.spend(expected_usd)

    def settle(self, expected_usd: float, cost_usd: float | None) -> None:
        """Count what a batch cost in place of what was expected."""
        self.spending.spend((cost_usd or 0.0) - expected_usd)

    def _spent(self, total: float, room: float) -> BudgetError:
        return BudgetError(
            f"the next wave of batches is expected to cost {total:.4g} USD, and the budget of "
            f"{self.spending.budget_usd:g} USD has {max(0.0, room):.4g} left: it was not sent",
            hint="the same command with a larger --budget resumes the run",
        )


def batch_price(model: Model, usage: Usage) -> float | None:
    """Dollars for one request in a batch; under a budget a pipeline file may raise a known price only."""
    cost = cost_usd(model, usage, tier=TIER)
    if cost is None or (model.cost is None and model.base_model is None):
        return cost
    return max(cost, list_price_usd(model.name, usage, tier=TIER) or 0.0)
