"""`cites`: the turns that an explanation cites exist, and are an output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verdict_cli import Pipeline
from verdict_cli.errors import SpecError, VerdictError

MESSAGES = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "No."},
    {"role": "user", "content": "Why?"},
]
KEYS = "explanation: true, cites: source.messages"


def judge(tmp_path: Path, keys: str = KEYS) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(
        "verdict: 1\nname: p\nmodel: {name: m, retries: 2, cache: false}\npipeline:\n"
        f'  - {{unit: JudgeUnit, name: judge, {keys}, prompt: "{{source.messages}}"}}\n',
        encoding="utf-8",
    )
    return Pipeline.from_yaml(path)


def test_cited_turns_are_an_output(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps(
        {"explanation": "Rude in [2], see also [1] and [2].", "score": 1}
    )
    judged = judge(tmp_path).run({"messages": MESSAGES})
    assert (judged.citations, judged.score) == ([1, 2], 1)


def test_a_turn_that_does_not_exist_makes_the_reply_unreadable(tmp_path, scripted_model):
    replies = iter(["as [9] shows", "as [4] shows", "as [3] shows"])
    scripted_model.answer = lambda _: json.dumps({"explanation": next(replies), "score": 1})
    assert judge(tmp_path).run({"messages": MESSAGES}).citations == [3]
    scripted_model.answer = lambda _: json.dumps({"explanation": "as [9] shows", "score": 1})
    with pytest.raises(VerdictError, match=r"cites \[9\], but the conversation has turns 1 to 3"):
        judge(tmp_path).run({"messages": MESSAGES})


def test_filtered_turns_are_the_only_ones_to_cite(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"explanation": "[1]", "score": 1})
    with pytest.raises(VerdictError, match=r"has turns 3 to 3"):
        judge(tmp_path, 'explanation: true, cites: "source.messages | last(1)"').run(
            {"messages": MESSAGES}
        )


def test_no_citation_is_an_empty_list(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"explanation": "rude", "score": 1})
    assert judge(tmp_path).run({"messages": MESSAGES}).citations == []


def test_the_entries_of_a_list_are_cited_by_their_numbers(tmp_path, scripted_model):
    replies = iter(["as [3] shows", "as [2] shows", "none shows it"])
    scripted_model.answer = lambda _: json.dumps({"explanation": next(replies), "score": 1})
    assert judge(tmp_path).run({"messages": ["one", "two"]}).citations == [2]
    assert judge(tmp_path).run({"messages": ["one", "two"]}).citations == []
    scripted_model.answer = lambda _: json.dumps({"explanation": "as [0] shows", "score": 1})
    with pytest.raises(VerdictError, match=r"cites \[0\], but the list has entries 1 to 2"):
        judge(tmp_path).run({"messages": ["one", "two"]})


def test_a_row_without_a_conversation_fails(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"explanation": "rude", "score": 1})
    with pytest.raises(VerdictError, match=r"`cites: source\.messages`"):
        judge(tmp_path).run({"messages": "Hi"})


def test_a_unit_without_an_explanation_cites_nothing(tmp_path):
    with pytest.raises(SpecError, match="add `explanation: true`"):
        judge(tmp_path, "cites: source.messages").plan()


def test_lists_and_ranges_are_cited_and_checked(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps(
        {"explanation": "See [1, 3] and [1-2].", "score": 1}
    )
    assert judge(tmp_path).run({"messages": MESSAGES}).citations == [1, 2, 3]
    for cited in ("[1, 7]", "[1; 7]", "[1-9]", "[2–999999999]"):
        scripted_model.answer = lambda _, cited=cited: json.dumps(
            {"explanation": cited, "score": 1}
        )
        with pytest.raises(VerdictError, match="but the conversation has turns 1 to 3"):
            judge(tmp_path).run({"messages": MESSAGES})


def test_an_empty_list_is_called_a_list(tmp_path, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"explanation": "[1]", "score": 1})
    with pytest.raises(VerdictError, match="but the list has no entries"):
        judge(tmp_path, "explanation: true, cites: source.messages").run({"messages": []})
