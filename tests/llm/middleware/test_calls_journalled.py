from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.middleware.journal_replay import UnrecordedError, only_journalled, replay_journal
from verdict_cli.messages import Alternative, Message, Reply, Request, Row, Usage
from verdict_cli.model import Model
from verdict_cli.storage.journal.entry import CallKey, JournalEntry
from verdict_cli.storage.journal.journal import Journal

REQUEST = Request(Row(3, "c", {}, "c0ffee"), "judge[1]", Model(name="m"), (Message("user", "?"),), call=1, attempt=2)
REPLY = Reply("4", logprobs=((Alternative("4", -0.1),),), usage=Usage(5, 1), cost_usd=0.5, latency_s=1.5)


class Memory:
    """A journal that forgets nothing and writes nothing."""

    def __init__(self) -> None:
        self.entries: dict[CallKey, JournalEntry] = {}

    def recall(self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "") -> JournalEntry | None:
        return self.entries.get((row, node, "", call, attempt, item))

    def append(self, entry: JournalEntry) -> None:
        self.entries[entry.key] = entry


class Fake:
    """Answers with the outcomes it was given, in order, and counts the calls."""

    def __init__(self, *outcomes: Reply | Exception) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    async def ask(self, _: Request) -> Reply:
        self.calls += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_a_reply_is_kept_and_not_asked_for_again() -> None:
    memory, model = Memory(), Fake(REPLY)
    assert asyncio.run(replay_journal(model.ask, memory)(REQUEST)) == REPLY
    assert list(memory.entries) == [("c0ffee", "judge[1]", "", 1, 2, "")]
    assert asyncio.run(replay_journal(model.ask, memory)(REQUEST)) == replace(REPLY, recalled=True)
    assert model.calls == 1


def test_another_attempt_is_another_call() -> None:
    memory, model = Memory(), Fake(REPLY, replace(REPLY, text="5"))
    ask = replay_journal(model.ask, memory)
    asyncio.run(ask(REQUEST))
    assert asyncio.run(ask(replace(REQUEST, attempt=3))).text == "5"


@pytest.mark.parametrize(
    "problem", [Rejected("too long", kind="context-too-long"), ReplyError("nothing", kind="empty")]
)
def test_a_failure_that_stays_is_raised_again_without_a_call(problem: ProviderError | ReplyError) -> None:
    memory, model = Memory(), Fake(problem)
    ask = replay_journal(model.ask, memory)
    with pytest.raises(type(problem)):
        asyncio.run(ask(REQUEST))
    with pytest.raises(type(problem), match=problem.message) as caught:
        asyncio.run(ask(REQUEST))
    assert caught.value.failure == problem.failure
    assert model.calls == 1


def test_a_failure_that_passes_is_kept_but_asked_again() -> None:
    memory, model = Memory(), Fake(Retryable("slow", kind="timeout"), REPLY)
    ask = replay_journal(model.ask, memory)
    with pytest.raises(Retryable):
        asyncio.run(ask(REQUEST))
    (entry,) = memory.entries.values()
    assert (entry.failure, entry.error, entry.retryable) == ("timeout", "slow", True)
    assert asyncio.run(ask(REQUEST)) == REPLY
    assert asyncio.run(ask(REQUEST)).recalled


def test_a_refusal_is_not_kept() -> None:
    memory, model = Memory(), Fake(Refused("bad key"), REPLY)
    ask = replay_journal(model.ask, memory)
    with pytest.raises(Refused):
        asyncio.run(ask(REQUEST))
    assert not memory.entries
    assert asyncio.run(ask(REQUEST)) == REPLY


@pytest.mark.parametrize("name", ["baseline/lexical", "replay/calls.jsonl"])
def test_calls_that_cost_nothing_are_not_kept(name: str) -> None:
    memory, model = Memory(), Fake(REPLY)
    asyncio.run(replay_journal(model.ask, memory)(replace(REQUEST, model=Model(name=name))))
    assert not memory.entries


def test_a_cancelled_call_is_not_kept() -> None:
    memory = Memory()

    async def never(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> None:
        task = asyncio.ensure_future(replay_journal(never, memory)(REQUEST))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert not memory.entries


def test_a_resumed_run_is_answered_from_the_file(tmp_path: Path) -> None:
    async def ask(*outcomes: Reply) -> Reply:
        with Journal.open(tmp_path / "journal.jsonl") as journal:
            reply = await replay_journal(Fake(*outcomes).ask, journal)(REQUEST)
            await journal.flush()
        return reply

    assert asyncio.run(ask(REPLY)) == REPLY
    assert asyncio.run(ask()) == replace(REPLY, recalled=True)


def test_a_reply_that_is_none_is_kept_with_what_it_cost_and_fails_again() -> None:
    memory = Memory()
    model = Fake(ReplyError("nothing", kind="empty", reply=replace(REPLY, text="")))
    for recalled in (False, True):
        with pytest.raises(ReplyError) as caught:
            asyncio.run(replay_journal(model.ask, memory)(REQUEST))
        assert caught.value.failure == "empty"
        assert caught.value.reply == replace(REPLY, text="", recalled=recalled)
    assert model.calls == 1


def test_as_recorded_a_failure_that_passes_is_raised_again_too() -> None:
    memory, model = Memory(), Fake(Retryable("slow", kind="timeout"))
    for _ in range(2):
        with pytest.raises(Retryable, match="slow"):
            asyncio.run(replay_journal(model.ask, memory, as_recorded=True)(REQUEST))
    assert model.calls == 1


def test_a_call_that_is_not_recorded_is_told_and_not_made() -> None:
    memory, model = Memory(), Fake(REPLY, REPLY)
    ask = only_journalled(replay_journal(model.ask, memory), memory)
    with pytest.raises(UnrecordedError, match=r"judge\[1\]"):
        asyncio.run(ask(REQUEST))
    assert model.calls == 0
    asyncio.run(replay_journal(model.ask, memory)(REQUEST))
    assert asyncio.run(ask(REQUEST)).recalled
    assert asyncio.run(ask(replace(REQUEST, model=Model(name="baseline/lexical")))) == REPLY
