from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.llm.backoff import delay_s


class Highest(Random):
    def random(self) -> float:
        return 1.0


def test_the_bound_doubles_from_half_a_second_to_thirty():
    assert [delay_s(n, None, Highest()) for n in (1, 2, 3, 4, 7, 8)] == [0.5, 1, 2, 4, 30, 30]


def test_the_providers_wish_is_followed_up_to_ten_minutes():
    assert [delay_s(9, wish, Random(0)) for wish in (0, 7.5, 601)] == [0, 7.5, 600]


@given(failures=st.integers(0, 10**9), wish=st.none() | st.floats(-1e9, 1e9), seed=st.integers())
def test_every_delay_is_bounded_and_repeatable(failures, wish, seed):
    delay = delay_s(failures, wish, Random(seed))
    assert 0 <= delay <= (30 if wish is None else 600)
    assert delay == delay_s(failures, wish, Random(seed))


def test_callers_that_failed_together_wait_differently():
    random = Random(0)
    assert len({delay_s(3, None, random) for _ in range(20)}) == 20
