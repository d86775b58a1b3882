"""The tokens that are charged by the usages that servers state."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.messages import Usage


def stated(
    prompt: Any, completion: Any, total: Any = None, thought: Any = None, **more: Any
) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        **more,
    }
    return (
        usage
        if thought is None
        else {**usage, "completion_tokens_details": {"reasoning_tokens": thought}}
    )


@pytest.mark.parametrize(
    ("usage", "charged"),
    [
        (stated(9, 2, 11), Usage(9, 2)),
        (stated(9, 2), Usage(9, 2)),
        (stated(9, 2, 0), Usage(9, 2)),
        (stated(9.0, 2.0, 11.0), Usage(9, 2)),
        (stated(9, 200, 209, 150), Usage(9, 200, reasoning_tokens=150)),
        (stated(12, 1, 399, 386), Usage(12, 387, reasoning_tokens=386)),
        (stated(21, 0, 81, 60), Usage(21, 60, reasoning_tokens=60)),
        (stated(21, None, 81), Usage(21, 60)),
        (stated(None, None, 81), Usage(0, 81)),
        (stated("9", "2", "11"), Usage(9, 2)),
        (stated(6, 102, 31048, cache_read_input_tokens=30940), Usage(30946, 102, 30940)),
        (
            stated(6, 102, 31434, 386, cache_read_input_tokens=30940),
            Usage(30946, 488, 30940, 0, 386),
        ),
        (
            stated(
                30946,
                102,
                31048,
                cache_read_input_tokens=30940,
                prompt_tokens_details={"cached_tokens": 0},
            ),
            Usage(30946, 102, 30940),
        ),
        (
            stated(
                30946,
                102,
                31048,
                cache_creation_input_tokens=900,
                prompt_tokens_details={"cached_tokens": 30000},
            ),
            Usage(30946, 102, 30000, 900),
        ),
        ({"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}, Usage(7, 3)),
    ],
)
def test_the_parts_and_the_total_give_the_tokens_charged(usage, charged):
    assert read_usage(usage) == charged


@pytest.mark.parametrize(
    ("usage", "charged", "note"),
    [
        (stated(20, 198, 623), Usage(20, 603), "total_tokens is 623, 405 more than its parts"),
        (
            stated(12, 1, 13, 386),
            Usage(12, 387, reasoning_tokens=386),
            "386 reasoning tokens are more than the reply's",
        ),
        (
            stated(12, 1, 100, 386),
            Usage(12, 387, reasoning_tokens=386),
            "386 reasoning tokens are more than the reply's",
        ),
        (stated(12, 5, 500, 386), Usage(12, 488, reasoning_tokens=386), "total_tokens is 500"),
        (stated(12, 5, 9), Usage(12, 5), "total_tokens is 9, less than its parts"),
        (
            stated(6, 102, 108, cache_read_input_tokens=300),
            Usage(306, 102, 300),
            "300 cached tokens are more than",
        ),
    ],
)
def test_a_usage_that_contradicts_itself_takes_the_dearer_reading(usage, charged, note):
    read = read_usage(usage)
    assert read is not None
    assert note in read.note
    assert (read.prompt_tokens, read.completion_tokens) == (
        charged.prompt_tokens,
        charged.completion_tokens,
    )
    assert (read.cached_tokens, read.reasoning_tokens) == (
        charged.cached_tokens,
        charged.reasoning_tokens,
    )


COUNTS = st.none() | st.integers(0, 500)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_no_reading_is_below_what_any_number_of_the_usage_says(
    prompt, completion, total, thought, read, cache_written
):
    more = {"cache_read_input_tokens": read, "cache_creation_input_tokens": cache_written}
    usage = read_usage(stated(prompt, completion, total, thought, **more))
    if usage is None:
        assert prompt is None or completion is None
        return
    assert usage.prompt_tokens >= max(prompt or 0, usage.cached_tokens + usage.cache_write_tokens)
    assert usage.completion_tokens >= max(completion or 0, thought or 0)
    assert usage.prompt_tokens + usage.completion_tokens >= (total or 0)


def test_sums_of_usages_leave_the_notes_out():
    noted = read_usage(stated(20, 198, 623))
    assert noted is not None
    assert noted.plus(Usage(1, 2, 3, 4, 5)) == Usage(21, 605, 3, 4, 5)


@pytest.mark.parametrize("total", [{}, {"total_tokens": 128}])
def test_a_usual_usage_is_read_in_few_steps(total):
    """One without a total took 46 calls, more than the rest of the reply."""
    calls: list[str] = []
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 0},
        **total,
    }
    sys.setprofile(
        lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        read = read_usage(usage)
    finally:
        sys.setprofile(None)
    assert read == Usage(120, 8)
    assert len(calls) < 10
