from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.llm.providers.price_book import cost_usd, entry_of
from verdict_cli.messages import Usage
from verdict_cli.model import Cost, Model


def test_the_pipelines_own_prices_come_first():
    model = Model(name="gpt-4o-mini", cost=Cost(input_per_million=1, output_per_million=10))
    assert cost_usd(model, Usage(2_000_000, 100_000)) == 3.0


@pytest.mark.parametrize(
    "name", ["nobody-knows-this", "openai/nobody", "", '"', "cache_read_input_token_cost"]
)
def test_an_unknown_price_is_none_and_never_zero(name):
    assert entry_of(name) is None
    assert cost_usd(Model(name=name or "x"), Usage(1, 1)) is None


def test_without_usage_the_cost_is_unknown():
    assert cost_usd(Model(name="gpt-4o-mini"), None) is None


def test_a_model_without_token_prices_has_no_cost():
    assert cost_usd(Model(name="dall-e-3"), Usage(1, 1)) is None


def test_litellm_is_not_imported_for_its_prices():
    code = (
        "import sys; from verdict_cli.llm.providers.price_book import entry_of;"
        "assert entry_of('gpt-4o-mini'); print('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.filterwarnings("ignore:Item .* on TypedDict class:UserWarning")  # litellm's own
def test_costs_agree_with_litellms():
    import litellm  # here, because the first import takes longer than an example may

    names = [
        name
        for name in ("gpt-4o-mini", "gpt-4o", "gpt-5.4", "gpt-5", "o3-mini")
        if name in litellm.model_cost
    ]

    @settings(deadline=None, max_examples=60)
    @given(st.sampled_from(names), st.integers(0, 400_000), st.integers(0, 20_000), st.floats(0, 1))
    def check(name: str, prompt: int, completion: int, share: float) -> None:
        cached = int(prompt * share)
        usage = litellm.Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            prompt_tokens_details={"cached_tokens": cached},
        )
        response = litellm.ModelResponse(model=name, usage=usage)
        expected = litellm.completion_cost(response, model=name)
        assert cost_usd(Model(name=name), Usage(prompt, completion, cached)) == pytest.approx(
            expected, abs=1e-12
        )

    check()


def test_cached_tokens_have_their_own_price_in_the_pipelines_prices():
    model = Model(
        name="mine", cost=Cost(input_per_million=2, output_per_million=10, cached_per_million=0.5)
    )
    assert cost_usd(model, Usage(1_000_000, 100_000, 400_000)) == pytest.approx(
        0.6 * 2 + 0.4 * 0.5 + 1.0
    )


def test_a_deployment_has_the_price_of_its_base_model():
    usage = Usage(1000, 100)
    model = Model(name="azure/my-deployment", base_model="gpt-4o-mini")
    assert cost_usd(Model(name="azure/my-deployment"), usage) is None
    assert (
        cost_usd(model, usage)
        == cost_usd(Model(name="gpt-4o-mini"), usage)
        == pytest.approx(0.00021)
    )


@pytest.mark.parametrize(
    ("requested", "stated", "share"),
    [("flex", "", 0.5), ("auto", "flex", 0.5), ("flex", "default", 1)],
)
def test_the_service_tier_of_the_reply_counts_before_the_requests(requested, stated, share):
    model = Model(name="gpt-5-mini", params={"service_tier": requested})
    assert cost_usd(model, Usage(100, 50), tier=stated) == pytest.approx(share * 0.000125)
