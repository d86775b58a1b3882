"""A directory's run that goes on with another dataset or pipeline: only what is new is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import JournalError, Rejected
from verdict_cli.messages import Reply, Request

TWO_STEPS = """
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}'}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {previous.thinking}'}
"""
CHOICE = "- {unit: BestOfKJudgeUnit, name: choice, k: 4, shuffle: true, options: %s, prompt: 'Which? %s'}"
OPTIONS = "[" + ", ".join(f"source.{letter}" for letter in "abcd") + "]"


async def spoken(request: Request) -> Reply:
    return Reply('{"score": 3}' if request.json_schema else f"thought of {request.row.source['text']}")


def data(folder: Path, name: str, texts: list[str]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return path


def asked(bench: Any) -> list[tuple[str, str]]:
    """(text, node) of what was asked since the last look."""
    found = sorted((one.row.source["text"], one.node) for one in bench.asked)
    bench.asked.clear()
    return found


BEFORE = ["a", "b", "twice", "c", "twice", "d"]


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ([*BEFORE, "e", "f"], ["e", "f"]),
        (["e", *BEFORE], ["e"]),
        (["a", "b", "twice", "e", "c", "twice", "d"], ["e"]),
        (BEFORE[::-1], []),
        (["twice", "twice", "twice", "a"], ["twice"]),
        (["d", "a"], []),
        (["a", "B", "twice", "c", "twice", "d"], ["B"]),
    ],
    ids=["grown", "put in front", "put in between", "reordered", "one more copy", "fewer", "edited"],
)
def test_another_dataset_costs_only_the_rows_that_it_has_new(
    after: list[str], new: list[str], bench: Any, read: Any
) -> None:
    bench.rule = spoken
    bench.run(bench.job(data(bench.folder, "before", BEFORE), TWO_STEPS))
    assert len(asked(bench)) == 2 * len(BEFORE)
    job = bench.job(data(bench.folder, "after", after), TWO_STEPS)
    with pytest.raises(JournalError, match="another dataset"):
        bench.run(job)
    facts = bench.run(replace(job, update=True))
    assert asked(bench) == [(text, node) for text in new for node in ("judge", "think")]
    assert (facts.status, facts.done, facts.recalled) == ("finished", len(after), 2 * (len(after) - len(new)))
    whole = bench.job(data(bench.folder, "after", after), TWO_STEPS, out="whole")
    bench.run(whole)
    assert job.directory.results.read_bytes() == whole.directory.results.read_bytes()


def test_a_row_that_moves_keeps_the_order_in_which_its_options_were_shown(bench: Any, read: Any) -> None:
    async def first(request: Request) -> Reply:
        return Reply('{"choice": "A"}')

    def rows(name: str, order: list[int]) -> Path:
        path = bench.folder / f"{name}.jsonl"
        lines = [json.dumps({letter: f"{letter}{n}" for letter in "abcd"}) for n in order]
        path.write_text("\n".join(lines) + "\n")
        return path

    bench.rule = first
    steps = CHOICE % (OPTIONS, "{input.A} {input.B} {input.C} {input.D}")
    bench.run(bench.job(rows("before", list(range(20))), steps))
    shown = {one.messages for one in bench.asked}
    assert len({text.index("a") for (message,) in shown for text in [message.content]}) > 1
    job = bench.job(rows("after", list(range(19, -1, -1))), steps)
    bench.asked.clear()
    bench.run(replace(job, update=True))
    assert bench.asked == []
    bench.run(bench.job(rows("after", list(range(19, -1, -1))), steps, out="whole"))
    assert {one.messages for one in bench.asked} == shown


CHANGED = TWO_STEPS.replace("Rate {", "Weigh {")


def test_another_pipeline_costs_only_the_units_that_differ_and_those_behind_them(bench: Any) -> None:
    bench.rule = spoken
    bench.run(bench.job(3, TWO_STEPS))
    bench.asked.clear()
    job = bench.job(3, CHANGED)
    with pytest.raises(JournalError, match="another pipeline") as caught:
        bench.run(job)
    assert "--update keeps that run and calls 1 of 2 units again: judge" in caught.value.hint
    facts = bench.run(replace(job, update=True))
    assert {node for _, node in asked(bench)} == {"judge"}
    assert (facts.calls, facts.recalled) == (6, 3)
    job = bench.job(3, CHANGED.replace("Think", "Ponder"))
    assert bench.run(replace(job, update=True)).recalled == 0
    assert {node for _, node in asked(bench)} == {"think", "judge"}


def test_an_interrupted_update_goes_on_by_itself_and_the_way_back_is_free(bench: Any) -> None:
    async def until_five(request: Request) -> Reply:
        if len(bench.asked) == 5:
            bench.stop.request()
        return await spoken(request)

    bench.rule = spoken
    before = bench.job(20, TWO_STEPS)
    bench.run(before)
    table = before.directory.results.read_bytes()
    bench.asked.clear()
    bench.rule = until_five
    job = bench.job(20, CHANGED, concurrency=1)
    assert bench.run(replace(job, update=True)).status == "interrupted"
    bench.rule = spoken
    assert bench.run(job).status == "finished"
    assert len(asked(bench)) == 20
    bench.run(replace(before, update=True))
    assert asked(bench) == []
    assert before.directory.results.read_bytes() == table


def test_a_run_killed_before_its_update_was_written_down_goes_on_either_way(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `run.json` says, no line of the journal is taken for an answer to another question."""
    bench.rule = spoken
    before, after = bench.job(4, TWO_STEPS), bench.job(4, CHANGED)
    bench.run(before)
    run_json = (before.directory.path / "run.json").read_bytes()
    bench.run(replace(after, update=True))
    bench.asked.clear()
    (before.directory.path / "run.json").write_bytes(run_json)
    bench.run(before)
    bench.run(replace(after, update=True))
    assert asked(bench) == []


def test_a_figure_that_is_measured_otherwise_is_no_other_run(bench: Any) -> None:
    bench.run(bench.job(3))
    bench.asked.clear()
    head = "model: {name: m, retries: 1}\nevaluate: {a: {value: output.score}}"
    facts = bench.run(bench.job(3, head=head))
    assert (facts.recalled, bench.asked) == (3, [])


def test_what_failed_for_good_stays_failed_when_rows_are_added(bench: Any) -> None:
    async def unlucky(request: Request) -> Reply:
        if request.row.source["text"] == "b":
            raise Rejected("too long", kind="context-too-long")
        return await spoken(request)

    bench.rule = unlucky
    bench.run(bench.job(data(bench.folder, "before", ["a", "b"])))
    bench.asked.clear()
    bench.rule = spoken
    job = bench.job(data(bench.folder, "after", ["new", "a", "b"]))
    assert bench.run(replace(job, update=True)).failures == {"context-too-long": 1}
    assert asked(bench) == [("new", "judge")]
    facts = bench.run(replace(job, update=True, retry_failed=True))
    assert (facts.failed, asked(bench)) == (0, [("b", "judge")])


def test_another_seed_asks_everything_again(bench: Any) -> None:
    bench.run(bench.job(3))
    job = bench.job(3, seed=1)
    job = replace(job, start=replace(job.start, spec_fingerprint="another"))
    bench.asked.clear()
    bench.run(replace(job, update=True))
    assert len(bench.asked) == 3


EACH = """
- {unit: JudgeUnit, name: judge, prompt: 'Rate {claim} of {source.text}', each: source.claims, as: claim}
- {unit: MeanPoolUnit, field: score}
"""


@pytest.mark.parametrize(
    ("after", "new"),
    [
        (["a", "b", "c"], []),
        (["a", "b", "c", "d"], ["d"]),
        (["d", "a", "b", "c"], ["d"]),
        (["c", "a"], []),
        (["a", "a", "b"], ["a"]),
        (["a", "B", "c"], ["B"]),
    ],
    ids=["same", "grown", "put in front", "fewer", "one more copy", "edited"],
)
@pytest.mark.parametrize("named", [True, False])
def test_another_list_costs_only_the_entries_that_it_has_new(
    after: list[str], new: list[str], named: bool, bench: Any, read: Any
) -> None:
    def rows(name: str, claims: list[str]) -> Path:
        path = bench.folder / f"{name}.jsonl"
        lines = [{"id": key, "text": "t", "claims": claims if key == "y" else ["z"]} for key in "xy"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    head = "model: {name: m, retries: 1}" + ("\ndataset: {id: id}" if named else "")
    bench.run(bench.job(rows("before", ["a", "b", "c"]), EACH, head=head))
    bench.asked.clear()
    job = bench.job(rows("after", after), EACH, head=head)
    facts = bench.run(replace(job, update=True))
    assert sorted(request.row.entry.names["claim"] for request in bench.asked) == new
    assert (facts.status, facts.recalled) == ("finished", 1 + len(after) - len(new))
    bench.asked.clear()
    again = bench.run(bench.job(rows("after", after), EACH, head=head))
    assert (again.status, bench.asked) == ("finished", [])
    whole = bench.job(rows("after", after), EACH, head=head, out="whole")
    bench.run(whole)
    assert job.directory.results.read_bytes() == whole.directory.results.read_bytes()
