"""A judge that is kept ready: from any thread, from any loop, as a reward."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from verdict_cli import (
    BooleanScale,
    BudgetError,
    DataError,
    DiscreteScale,
    Judge,
    JudgeUnit,
    Layer,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    Pipeline,
    RegexExtractor,
    ReplyError,
    RowError,
    TokenProbabilityExtractor,
    UsageError,
)

YAML = """
verdict: 1
name: t
model: baseline/lexical
pipeline: [{unit: JudgeUnit, prompt: 'Is {source.a} about {source.b}?'}]
"""
ROWS = [{"a": "a red house", "b": "a red house"}, {"a": "ships", "b": "the law of bees"}]


def jury() -> Pipeline:
    judge = JudgeUnit(BooleanScale()).prompt("Is {source.a} about {source.b}?")
    return Pipeline("jury", model="baseline/lexical") >> Layer(judge, 2) >> MeanPoolUnit("score")


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "verdict-judge"]


def test_a_judge_gives_what_the_pipeline_gives(tmp_path):
    (tmp_path / "t.yaml").write_text(YAML)
    with Judge.from_yaml(tmp_path / "t.yaml") as judge:
        for row in ROWS:
            assert judge(row) == Pipeline.from_yaml(YAML).run(row)


def test_it_is_called_from_many_threads_at_once():
    earlier = len(alive())  # judges of other tests that nothing has collected yet
    with Judge(jury()) as judge, ThreadPoolExecutor(8) as threads:
        rewards = list(threads.map(judge, ROWS * 32))
        assert rewards == [judge(ROWS[0]), judge(ROWS[1])] * 32
        assert len(alive()) <= earlier + 1


def test_it_is_awaited_in_several_loops_and_called_within_one():
    with Judge(jury()) as judge:

        async def within() -> list[Any]:
            return [judge(ROWS[0]), *await asyncio.gather(*(judge.acall(row) for row in ROWS))]

        first, second = asyncio.run(within()), asyncio.run(within())
    assert first == second and first[0] == first[1]


def test_rewards_come_in_the_order_of_the_rows():
    with Judge(jury(), concurrency=3) as judge:
        rewards = judge.reward(ROWS * 10)
        assert rewards == [judge(row).score for row in ROWS] * 10
        assert all(type(reward) is float for reward in rewards)
        assert asyncio.run(judge.areward(ROWS)) == rewards[:2]
        assert judge.reward([]) == []


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        (
            Pipeline("p")
            >> JudgeUnit(DiscreteScale(["bad", "good"], scores={"bad": -1, "good": 1})),
            None,
        ),
        (
            Pipeline("p")
            >> JudgeUnit(DiscreteScale((1, 5)))
            .prompt("{source.a} {source.b}")
            .extract(TokenProbabilityExtractor()),
            None,
        ),
        (
            Pipeline("p")
            >> Layer(JudgeUnit().prompt("{source.a}"), 3)
            >> MeanVariancePoolUnit("score"),
            None,
        ),
        (
            Pipeline("p") >> Layer(JudgeUnit().prompt("{source.a}"), 2),
            "nodes['judge[1]'].score / 5",
        ),
    ],
    ids=["scores", "expectation", "mean", "expression"],
)
def test_the_reward_is_the_number_that_the_last_step_means(pipeline, text):
    first = pipeline.steps[0]
    if isinstance(first, JudgeUnit) and text is None and "prompt" not in repr(first):
        pipeline = Pipeline("p") >> first.prompt("Is {source.a} about {source.b}?")
    with Judge(pipeline, model="baseline/lexical", reward=text) as judge:
        for row in ROWS:
            judged = judge(row)
            (reward,) = judge.reward([row])
            if text is not None:
                assert reward == judged["judge[1]"].score / 5
            elif "distribution" in judged:
                assert reward == pytest.approx(
                    sum(k * v for k, v in dict(judged["distribution"]).items())
                )
            elif "mean" in judged:
                assert reward == judged.mean
            else:
                assert reward == {"bad": -1, "good": 1}[judged.score]


def test_a_pipeline_without_a_number_names_the_way_out():
    with (
        Judge(
            Pipeline("p", model="baseline/lexical") >> Layer(JudgeUnit().prompt("J {source.a}"), 2)
        ) as judge,
        pytest.raises(
            UsageError, match=r"(?s)the last step has 2 units.*\n.*nodes\['judge\[0\]'\]\.score"
        ),
    ):
        judge.reward([{"a": "x"}])
    with pytest.raises(UsageError, match=r"the reward `output\.scor`: output has no field 'scor'"):
        Judge(jury(), reward="output.scor")


def test_a_failed_row_raises_or_is_not_a_number(recorded):
    pipeline = Pipeline("p", model={"name": "m", "retries": 0}) >> JudgeUnit().prompt(
        "J {source.a}"
    )
    rows: list[dict[str, Any]] = [{"a": "x"}] * 3
    replay = recorded(rows=[{"judge": '{"score": 4}'}, {"judge": "mud"}, {"judge": '{"score": 2}'}])
    with Judge(pipeline, replay=replay) as judge:
        four, none, two = judge.reward(rows, failures="nan")
        assert (four, two) == (4.0, 2.0) and math.isnan(none)
        with pytest.raises(ReplyError):
            judge.reward(rows)
        with pytest.raises(UsageError, match='it is "raise" or "nan"'):
            judge.reward(rows, failures="zero")  # type: ignore[arg-type]
        with pytest.raises(DataError, match="no column 'a'"):
            judge.reward([{"b": 1}], failures="nan")


def test_a_closed_judge_says_so_and_leaves_no_thread():
    before = len(alive())
    judge = Judge(jury())
    judge(ROWS[0])
    judge.close()
    judge.close()
    with pytest.raises(UsageError, match="the judge is closed"):
        judge(ROWS[0])
    dropped = Judge(jury())
    dropped(ROWS[0])
    del dropped
    gc.collect()
    assert len(alive()) == before


def test_closing_ends_calls_that_are_going_on(loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    url = loopback.start("--latency-ms", "20000")
    judge = Judge(
        Pipeline("p", model={"name": "openai/m", "api_base": url})
        >> JudgeUnit().prompt("J {source.a}")
    )
    with ThreadPoolExecutor(1) as threads:
        going = threads.submit(judge, {"a": "x"})
        while not judge._open_background()._session:
            pass
        judge.close()
        with pytest.raises(UsageError, match="closed before it answered"):
            going.result()


def test_a_judge_cannot_wait_for_itself():
    judges: list[Judge] = []

    def again(output: Any) -> Any:
        return {"score": judges[0](ROWS[0]).score if judges else 1}

    unit = JudgeUnit().prompt("J {source.a}").propagate(again, fields={"score": int})
    with Judge(Pipeline("p", model="baseline/lexical") >> unit) as judge:
        judges.append(judge)
        with pytest.raises(RowError, match="cannot wait for itself"):
            judge(ROWS[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_judges_too():
    with Judge(jury()) as judge:
        expected = judge(ROWS[0]).score
        child = os.fork()
        if child == 0:
            os._exit(0 if judge(ROWS[0]).score == expected else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_the_budget_ends_the_judging(loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    model = {
        "name": "openai/m",
        "api_base": loopback.url,
        "cost": {"input_per_million": 1e6, "output_per_million": 1e6},
    }
    unit = (
        JudgeUnit().prompt("J {source.a}").extract(RegexExtractor(pattern=RegexExtractor.FIRST_INT))
    )
    with Judge(Pipeline("p", model=model) >> unit, budget=0.5) as judge, pytest.raises(BudgetError):
        for _ in range(20):
            judge({"a": "x"})


@pytest.mark.parametrize("budget", [float("nan"), -1, "1"])
def test_a_budget_that_could_not_be_kept_is_refused(budget):
    with pytest.raises(UsageError, match="budget is"):
        Judge(jury(), budget=budget)
    Judge(jury(), budget=0).close()
