from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.llm.middleware.quota import MINUTE_S, SlidingWindow


def test_a_call_waits_until_the_oldest_leaves() -> None:
    window = SlidingWindow(2, None)
    window.add(1, 0.0)
    window.add(1, 10.0)
    assert window.wait_s(1, 15.0) == 45.0
    assert window.wait_s(1, 60.0) == 0.0


def test_tokens_wait_for_as_many_calls_as_must_leave() -> None:
    window = SlidingWindow(None, 100)
    for at in (0.0, 1.0, 2.0):
        window.add(30, at)
    assert window.wait_s(10, 3.0) == 0.0
    assert window.wait_s(40, 3.0) == 57.0
    assert window.wait_s(41, 3.0) == 58.0


def test_settled_tokens_replace_the_estimate() -> None:
    window = SlidingWindow(None, 100)
    sent = window.add(90, 0.0)
    assert window.wait_s(50, 1.0) > 0
    window.correct(sent, 10)
    assert window.wait_s(50, 1.0) == 0.0


def test_a_call_settled_after_it_left_changes_nothing() -> None:
    window = SlidingWindow(None, 100)
    late = window.add(10, 0.0)
    window.add(60, 30.0)
    assert window.wait_s(40, 70.0) == 0.0
    window.correct(late, 90)
    assert window.wait_s(40, 70.0) == 0.0


@settings(deadline=None)
@given(
    calls=st.lists(st.tuples(st.floats(0, 40), st.integers(1, 50), st.integers(0, 80)), max_size=40),
    requests=st.integers(1, 5),
)
def test_no_minute_ever_holds_more_than_the_limits(calls: list[tuple[float, int, int]], requests: int) -> None:
    window = SlidingWindow(requests, 100)
    now = 0.0
    sent: list[tuple[float, int]] = []
    for pause, tokens, used in calls:
        now += pause
        while (wait := window.wait_s(tokens, now)) > 0:
            assert wait <= MINUTE_S + 1e-9
            now += wait
        recent = [(at, amount) for at, amount in sent if at > now - MINUTE_S + 1e-3]
        assert len(recent) < requests
        assert sum(amount for _, amount in recent) + tokens <= 100 + 1e-9
        entry = window.add(tokens, now)
        window.correct(entry, used)
        sent.append((now, used))
