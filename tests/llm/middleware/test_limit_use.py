"""How much of a provider's limit the calls of a run use, and how many are refused; in virtual time."""

import pytest
from limited_provider import STORMS, Provider, judge, recover


@pytest.mark.parametrize("median_s", [0.1, 0.5, 2.0])
def test_a_limit_in_headers_is_used_to_97_percent_with_2_percent_refused(median_s):
    provider = Provider(1200, median_s=median_s, p99_s=6 * median_s, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.97
    assert provider.refused <= 0.02


def test_headers_that_count_a_minutes_worth_are_used_as_well():
    provider = Provider(1200, burst_s=60, states=True)
    judge(provider, 3000)
    assert provider.used() >= 0.97
    assert provider.refused <= 0.02


@pytest.mark.parametrize("median_s", [0.1, 0.5, 2.0])
def test_a_limit_without_bursts_is_used_to_97_percent_with_2_percent_refused(
    median_s,
):
    provider = Provider(1200, burst_s=1, median_s=median_s, p99_s=6 * median_s, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.97
    assert provider.refused <= 0.02


def test_without_a_limit_the_first_calls_cost_less_than_1_percent_of_the_time():
    waves = -(-2000 // 128)
    assert (
        judge(Provider(median_s=0.19, p99_s=0.1901), 2000) <= 1.01 * waves * 0.2
    )  # with the round trip


def test_headers_that_are_written_with_the_reply_lose_little():
    provider = Provider(1200, median_s=2.0, p99_s=6.0, states=True, late=True)
    judge(provider, 1500)
    assert provider.used() >= 0.9
    assert provider.refused <= 0.05


def test_headers_of_a_window_that_is_refilled_all_at_once_lose_little():
    provider = Provider(1200, window_s=10, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.85
    assert provider.refused <= 0.05


@pytest.mark.parametrize("median_s", [0.1, 0.5, 4.0])
def test_a_limit_that_is_not_stated_is_used_to_93_percent(median_s):
    provider = Provider(120, median_s=median_s, p99_s=3 * median_s)
    judge(provider, 250, 64)
    assert provider.used() >= 0.93


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("per_minute", [120, 1200])
def test_ten_seconds_after_a_storm_of_refusals_the_limit_is_used_again(
    per_minute, states, tells, storm
):
    provider = recover(per_minute, storm, states=states, tells=tells, median_s=2.0, p99_s=12.0)
    assert provider.recovery_s() <= 10


@pytest.mark.parametrize("latency", [(0.5, 3.0), (1.0, 1.001), (4.0, 12.0)])
@pytest.mark.parametrize("at_once", [3, 10, 40])
def test_a_limit_of_calls_at_once_is_learned_and_used(at_once, latency):
    """The mean of several seeds, of what is used until the last call is accepted: that depends little on the draws."""
    used = []
    for seed in (3, 7, 15):
        provider = Provider(at_once=at_once, median_s=latency[0], p99_s=latency[1], seed=seed)
        judge(provider, 1500)
        used.append(provider.used_at_once())
        assert (
            provider.sent - 1500 <= 128 + 0.1 * 1500
        )  # those sent before the first refusal, and probes
    assert sum(used) / len(used) >= 0.85


@pytest.mark.parametrize(
    ("noise", "median_s", "concurrency"),
    [(0.03, 0.5, 128), (0.1, 0.1, 128), (0.1, 0.5, 128), (0.1, 0.5, 8), (0.2, 0.5, 128)],
)
def test_random_refusals_are_no_limit(noise, median_s, concurrency):
    """5,000 calls took 1,500 s with a tenth of them refused."""
    calls = 5000 if concurrency == 128 else 1500
    noisy, quiet = (
        Provider(median_s=median_s, p99_s=6 * median_s, noise=share) for share in (noise, 0.0)
    )
    took_s = judge(noisy, calls, concurrency)
    assert took_s <= judge(quiet, calls, concurrency) / 0.6


@pytest.mark.parametrize("states", [False, True])
def test_a_limit_is_obeyed_although_other_calls_are_refused_at_random(states):
    """The mean of some seeds: one refuses more, another less."""
    refused = []
    for seed in (1, 4, 7):
        provider = Provider(6000, noise=0.1, states=states, seed=seed)
        judge(provider, 6000)
        assert provider.used() >= 0.7
        refused.append(provider.refused)
    assert sum(refused) / len(refused) <= 0.18


def test_a_fifth_refused_at_random_slows_down_no_run_for_long():
    """One of these got 0.12 of the rate of a provider that refuses nothing: each pause put the rate back."""
    shares = []
    for seed in (1, 3):
        noisy, quiet = (Provider(noise=share, seed=seed) for share in (0.2, 0.0))
        shares.append(judge(quiet, 5000) / judge(noisy, 5000))
    assert min(shares) >= 0.5


def test_a_limit_that_is_not_stated_is_not_taken_for_noise():
    for per_minute, median_s in ((300, 0.2), (1200, 2.0)):
        provider = Provider(per_minute, median_s=median_s, p99_s=6 * median_s)
        judge(provider, 2 * per_minute)
        assert provider.refused <= 0.15
