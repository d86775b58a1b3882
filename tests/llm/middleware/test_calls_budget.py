"""The budget: the worst case of each call is reserved before it is sent."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request

import pytest

from verdict_cli.cli.app import main
from verdict_cli.errors import BudgetError, VerdictError
from verdict_cli.llm.middleware.budget import Spending, check_budget
from verdict_cli.llm.providers.price_book import worst_case_usd
from verdict_cli.messages import Message, Reply, Request, Row, Usage
from verdict_cli.model import Cost, Model

DOLLAR = Cost(input_per_million=0, output_per_million=1e6)
"""One dollar for each token of a reply."""


def request(model: Model, text: str = "Rate") -> Request:
    return Request(Row(0, 0, {}), "judge", model, (Message("user", text),))


def spend(
    model: Model, budget_usd: float, calls: int, cost_usd: float = 1.0
) -> tuple[int, Spending]:
    """How many of the calls, all made at once, were sent; each reply has one token."""
    spending, errors, sent = Spending(budget_usd), list[VerdictError](), 0

    async def answer(_: Request) -> Reply:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0)
        return Reply("3", usage=Usage(1_000_000, 1), cost_usd=cost_usd)

    async def run() -> None:
        ask = check_budget(answer, spending, lambda: bool(errors), errors.append)
        await asyncio.gather(*(ask(request(model)) for _ in range(calls)), return_exceptions=True)

    asyncio.run(run())
    return sent, spending


@pytest.mark.parametrize("longest", [1, 3, 100, None])
@pytest.mark.parametrize("at_once", [8, 64, 256])
def test_calls_at_once_overshoot_by_one_call_at_most(at_once, longest):
    sent, spending = spend(Model(name="m", max_tokens=longest, cost=DOLLAR), 10, at_once)
    assert sent == min(at_once, 10)
    assert spending.spent_usd <= 11
    assert (spending.reserved_usd, spending.in_flight) == (0, 0)


def test_calls_that_all_fit_run_at_once():
    spending, running, most = Spending(100), 0, 0

    async def answer(_: Request) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Reply("3", cost_usd=1.0)

    async def run() -> None:
        ask = check_budget(answer, spending, lambda: False, lambda _: None)
        await asyncio.gather(
            *(ask(request(Model(name="m", max_tokens=1, cost=DOLLAR))) for _ in range(64))
        )

    asyncio.run(run())
    assert most == 64


def test_a_failed_call_releases_its_reservation():
    spending = Spending(10)

    async def run() -> None:
        for _ in range(20):
            spending.settle(await spending.reserve(9.0))
        await spending.reserve(10.0)
        spending.spent_usd = 10.0
        with pytest.raises(BudgetError):
            await spending.reserve(1.0)

    asyncio.run(run())


def test_a_files_price_may_raise_a_known_price_but_not_lower_it():
    free = Model(name="gpt-4o-mini", cost=Cost(input_per_million=0, output_per_million=0))
    sent, spending = spend(free, 1e-7, 100, cost_usd=0.0)
    assert sent == 1
    assert spending.spent_usd > 0.1  # a million prompt tokens
    dear = Model(
        name="gpt-4o-mini", max_tokens=1, cost=Cost(input_per_million=0, output_per_million=5e6)
    )
    assert worst_case_usd(request(dear)) == pytest.approx(5.0)


def test_the_reservation_counts_prompt_and_longest_reply():
    price = Cost(input_per_million=1e6, output_per_million=1e6)
    assert worst_case_usd(request(Model(name="m", max_tokens=7, cost=price), "x" * 400)) == 207
    assert worst_case_usd(request(Model(name="m"))) is None
    assert worst_case_usd(request(Model(name="baseline/lexical"))) == 0


def test_a_run_of_256_at_once_stays_within_its_budget(loopback, tmp_path, monkeypatch):
    url = loopback.start()
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: p\n"
        f"model: {{name: openai/m, api_base: '{url}', max_tokens: 200,"
        " cost: {input_per_million: 100000, output_per_million: 0}}\n"
        "pipeline: [{unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}]\n"
    )
    (tmp_path / "d.jsonl").write_text(
        "".join(f'{{"text": "row {place:04}"}}\n' for place in range(400))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "verdict",
            "run",
            "p.yaml",
            "d.jsonl",
            "--out",
            "out",
            "--concurrency",
            "256",
            "--budget",
            "10",
        ],
    )
    with pytest.raises(SystemExit) as caught:
        main()
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        served = json.load(answer)["requests"]
    assert caught.value.code != 0
    assert served == facts["calls"] > 0
    assert facts["cost_usd"] <= 10 + facts["cost_usd"] / facts["calls"]
