from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import DataError, Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.recording import Recording, ReplayProvider
from verdict_cli.messages import Alternative, Reply, Request, Row, Usage

Make = Callable[..., Request]


def write(path: Path, *records: Any) -> Path:
    lines = "".join(
        (record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records
    )
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


def ask(path: Path, *requests: Request) -> Reply:
    """The reply to the last of the requests."""

    async def run() -> Reply:
        provider = ReplayProvider(recording=Recording.load(path))
        try:
            replies = [await provider.ask(request) for request in requests]
        finally:
            await provider.close()
        return replies[-1]

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.jsonl.gz"])
def test_a_call_is_answered_by_the_record_of_its_row_or_id(tmp_path, request_for, name):
    path = write(
        tmp_path / name,
        {"row": 0, "unit": "judge", "reply": "by row"},
        {"id": "b", "unit": "judge", "reply": "by id", "finish_reason": "length"},
    )
    assert ask(path, request_for(row=Row(0, "x", {}))).text == "by row"
    reply = ask(path, request_for(row=Row(7, "b", {})))
    assert (reply.text, reply.finish_reason, reply.cost_usd) == ("by id", "length", 0.0)


def test_call_and_attempt_default_to_zero(tmp_path, request_for):
    path = write(
        tmp_path / "r.jsonl",
        {"row": 0, "unit": "judge", "reply": "first"},
        {"row": 0, "unit": "judge", "attempt": 1, "reply": "again"},
        {"row": 0, "unit": "judge", "call": 1, "attempt": None, "reply": "swapped"},
    )
    assert ask(path, request_for()).text == "first"
    assert ask(path, request_for(attempt=1)).text == "again"
    assert ask(path, request_for(call=1)).text == "swapped"


@pytest.mark.parametrize(("recorded", "row_id"), [(3, "3"), ("3", 3), (3, 3), ("3", "3")])
def test_a_number_and_its_text_are_the_same_id(tmp_path, request_for, recorded, row_id):
    path = write(tmp_path / "r.jsonl", {"id": recorded, "unit": "judge", "reply": "yes"})
    assert ask(path, request_for(row=Row(9, row_id, {}))).text == "yes"


def test_a_record_with_an_id_never_answers_for_another_row_in_its_place(tmp_path, request_for):
    path = write(tmp_path / "r.jsonl", {"row": 0, "id": "a", "unit": "judge", "reply": "a"})
    assert ask(path, request_for(row=Row(5, "a", {}))).text == "a"
    with pytest.raises(Rejected):
        ask(path, request_for(row=Row(0, "b", {})))


def test_rows_of_the_same_id_are_distinguished_by_their_place(tmp_path, request_for):
    records = [{"row": n, "id": "a", "unit": "judge", "reply": str(n)} for n in range(3)]
    path = write(tmp_path / "r.jsonl", *records)
    assert [ask(path, request_for(row=Row(n, "a", {}))).text for n in range(3)] == ["0", "1", "2"]


def test_a_call_that_is_not_recorded_is_rejected_by_name(tmp_path, request_for):
    path = write(tmp_path / "r.jsonl", {"row": 0, "unit": "judge", "reply": "x"})
    with pytest.raises(
        Rejected, match=r"unit judge, row 4 \(id 'd'\), call 0, attempt 0"
    ) as caught:
        ask(path, request_for(row=Row(4, "d", {})))
    assert caught.value.failure == "not-recorded"
    with pytest.raises(Rejected, match=r"attempt 1\n.*1 earlier attempt"):
        ask(path, request_for(attempt=1))


def test_the_unit_must_be_the_node_itself(tmp_path, request_for):
    path = write(tmp_path / "r.jsonl", {"row": 0, "unit": "judge", "reply": "x"})
    with pytest.raises(Rejected, match=r"unit judge\[1\][\s\S]*it has calls of judge"):
        ask(path, request_for(node="judge[1]"))


def test_logprobs_of_both_shapes_give_the_chosen_token_first(tmp_path, request_for):
    ours = [[{"token": "4", "logprob": -0.1}, {"token": "5", "logprob": -2}]]
    api = [{"token": "4", "logprob": -0.1, "top_logprobs": [ours[0][1], ours[0][0]]}]
    path = write(
        tmp_path / "r.jsonl",
        {"row": 0, "unit": "judge", "reply": "4", "logprobs": ours},
        {"row": 1, "unit": "judge", "reply": "4", "logprobs": api},
        {"row": 2, "unit": "judge", "reply": "4", "logprobs": {"content": api}},
    )
    expected = ((Alternative("4", -0.1), Alternative("5", -2.0)),)
    for row in range(3):
        assert ask(path, request_for(row=Row(row, "", {}))).logprobs == expected


@pytest.mark.parametrize("spelled", ["NaN", "null"])
def test_a_logprob_that_is_no_number_stays_none(tmp_path, request_for, spelled):
    line = '{"row":0,"unit":"judge","reply":"4","logprobs":[[{"token":"4","logprob":?}]]}'.replace(
        "?", spelled
    )
    reply = ask(write(tmp_path / "r.jsonl", line), request_for())
    assert reply.logprobs is not None and math.isnan(reply.logprobs[0][0].logprob)


def test_a_wrong_logprob_is_the_rows_error_with_its_line(tmp_path, request_for):
    path = write(
        tmp_path / "r.jsonl",
        {"row": 1, "unit": "judge", "reply": "4"},
        {"row": 0, "unit": "judge", "reply": "4", "logprobs": [[{"logprob": 1}]]},
    )
    with pytest.raises(Rejected, match=r"r\.jsonl:2: an alternative must be"):
        ask(path, request_for())


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("rate-limit", Retryable),
        ("timeout", Retryable),
        ("unavailable", Retryable),
        ("context-too-long", Rejected),
        ("cut-off", ReplyError),
    ],
)
def test_a_recorded_failure_is_raised_again(tmp_path, request_for, failure, error):
    record = {"row": 0, "unit": "judge", "reply": None, "failure": failure, "error": "as it was"}
    with pytest.raises(error, match="as it was") as caught:
        ask(write(tmp_path / "r.jsonl", record), request_for())
    assert getattr(caught.value, "failure", None) == failure
    assert getattr(caught.value, "retry_after_s", 0) == 0


def test_recorded_usage_and_model_are_preserved(tmp_path, request_for):
    path = write(
        tmp_path / "r.jsonl",
        {
            "row": 0,
            "unit": "judge",
            "reply": "x",
            "model": "gpt-x",
            "prompt_tokens": 7,
            "completion_tokens": 2,
        },
        {
            "row": 1,
            "unit": "judge",
            "reply": "x",
            "usage": {"prompt_tokens": 5, "completion_tokens": 1},
        },
    )
    assert ask(path, request_for()).usage == Usage(7, 2)
    assert ask(path, request_for()).model == "gpt-x"
    assert ask(path, request_for(row=Row(1, "", {}))).usage == Usage(5, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"text"', "must be an object"),
        ('{"row":0,"reply":"x"}', '"unit" must be'),
        ('{"unit":"judge","reply":"x"}', 'needs "id" or "row"'),
        ('{"row":-2,"unit":"judge","reply":"x"}', '"row" must be a whole number'),
        ('{"row":true,"unit":"judge","reply":"x"}', '"row" must be a whole number'),
        ('{"row":0,"attempt":"1","unit":"judge","reply":"x"}', '"attempt" must be a whole number'),
        ('{"id":1.5,"unit":"judge","reply":"x"}', '"id" must be a text or a whole number'),
        ('{"row":0,"unit":"judge"}', '"reply" is missing'),
        ('{"row":0,"unit":"judge","reply":{"score":1}}', '"reply" must be a text'),
        ('{"row":0,"unit":"judge","reply":"\\ud800"}', "not JSON"),
    ],
)
def test_a_bad_record_is_an_error_with_file_and_line(tmp_path, line, message):
    path = write(tmp_path / "r.jsonl", {"row": 3, "unit": "judge", "reply": "x"}, "", line)
    with pytest.raises(DataError, match=message) as caught:
        Recording.load(path)
    assert (caught.value.problem.file, caught.value.problem.line) == (str(path), 3)


def test_a_call_recorded_twice_is_an_error_that_names_both_lines(tmp_path):
    for name in ({"row": 0}, {"id": "a"}, {"id": "a", "row": 0}):
        record = {**name, "unit": "judge", "reply": "x"}
        with pytest.raises(DataError, match=r"r\.jsonl:2: .*is a duplicate: line 1 has it already"):
            Recording.load(write(tmp_path / "r.jsonl", record, record))


def test_a_truncated_gzip_names_its_file(tmp_path):
    path = write(
        tmp_path / "r.jsonl.gz", *({"row": n, "unit": "judge", "reply": "x"} for n in range(99))
    )
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        DataError, match=r"r\.jsonl\.gz: the compressed recording cannot be decompressed"
    ):
        Recording.load(path)


@pytest.mark.parametrize("name", ["none.jsonl", "none.parquet", "none"])
def test_a_recording_that_is_not_there_names_its_file(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: "):
        Recording.load(tmp_path / name)


def test_a_directory_without_calls_names_the_file_that_it_lacks(tmp_path):
    with pytest.raises(DataError, match=r"calls\.parquet"):
        Recording.load(tmp_path)


def test_an_empty_recording_answers_nothing(tmp_path, request_for):
    with pytest.raises(Rejected, match="no unit"):
        ask(write(tmp_path / "r.jsonl"), request_for())


def test_byte_order_mark_and_windows_line_ends_are_read(tmp_path, request_for):
    path = tmp_path / "r.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"row":0,"unit":"judge","reply":"a"}\r\n{"row":1,"unit":"judge","reply":"b"}'
    )
    assert ask(path, request_for()).text == "a"
    assert ask(path, request_for(row=Row(1, "", {}))).text == "b"


def table(path: Path, **columns: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_a_runs_calls_are_read_from_its_directory(tmp_path, request_for):
    logprobs = [[{"token": "4", "logprob": -0.5}]]
    table(
        tmp_path / "calls.parquet",
        row=[0, 0, 1, 2],
        id=["a", "a", "b", "c"],
        unit=["judge"] * 4,
        call=[0, 0, 0, 0],
        attempt=[0, 1, 0, 0],
        model=["m"] * 4,
        messages=["[]"] * 4,
        reply=[None, "4", "5", "6"],
        finish_reason=[None, "stop", "stop", "length"],
        logprobs=[None, logprobs, None, None],
        prompt_tokens=[None, 3, 4, 5],
        completion_tokens=[None, 1, 1, 1],
        cost_usd=[None, 0.1, 0.1, 0.1],
        latency_s=[1.0] * 4,
        failure=["rate-limit", "", "", ""],
        error=["slow down", "", "", ""],
    )
    with pytest.raises(Retryable, match="slow down"):
        ask(tmp_path, request_for())
    reply = ask(tmp_path, request_for(attempt=1))
    assert reply == Reply(
        "4", logprobs=((Alternative("4", -0.5),),), usage=Usage(3, 1), cost_usd=0.0, model="m"
    )
    assert ask(tmp_path, request_for(row=Row(2, "c", {}))).finish_reason == "length"


def test_a_parquet_file_without_a_needed_column_says_which(tmp_path):
    path = table(tmp_path / "calls.parquet", row=[0], unit=["judge"])
    with pytest.raises(
        DataError, match=r"calls\.parquet: no column 'id', 'call', 'attempt', 'reply'"
    ):
        Recording.load(path)


def test_a_broken_parquet_file_names_itself(tmp_path):
    path = tmp_path / "calls.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match=r"calls\.parquet: not a readable Parquet file"):
        Recording.load(path)


@settings(deadline=None, max_examples=50)
@given(content=st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("recording") / "r.jsonl"
    path.write_bytes(content)
    try:
        Recording.load(path).close()
    except DataError as problem:
        assert str(path) in str(problem)


@pytest.mark.parametrize(
    ("text", "failure", "error"),
    [
        ("", "empty", ReplyError),
        (" ", "cut-off", ReplyError),
        ("half", "content-filter", Rejected),
        ("I cannot", "refused", ReplyError),
    ],
)
def test_a_reply_that_was_none_is_none_again_and_keeps_its_usage(
    tmp_path, request_for, text, failure, error
):
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    path = tmp_path / "calls.jsonl"
    write(
        path,
        {
            "row": 0,
            "unit": "judge",
            "reply": text,
            "failure": failure,
            "error": "x",
            "usage": usage,
        },
    )
    with pytest.raises(error) as caught:
        ask(path, request_for())
    assert caught.value.failure == failure  # type: ignore[attr-defined]
    assert caught.value.reply.usage == Usage(9, 1)  # type: ignore[attr-defined]


def test_a_reply_that_could_not_be_read_then_is_read_anew(tmp_path, request_for):
    path = tmp_path / "calls.jsonl"
    write(path, {"row": 0, "unit": "judge", "reply": "4", "failure": "unreadable", "error": "x"})
    assert ask(path, request_for()).text == "4"
