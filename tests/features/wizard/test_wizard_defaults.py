"""`verdict init FILE --yes`: the defaults alone give the judge that a person would expect, and it runs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonl import jsonl

from verdict_cli.features.wizard.columns import DatasetColumn, main_column
from verdict_cli.language.document.document import read_document

TEXTS = ("the first text of the row", "another text that is longer", "a third one")


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


def cycled(columns: dict[str, Sequence[Any]], count: int = 12) -> list[dict[str, Any]]:
    return [
        {name: values[row % len(values)] for name, values in columns.items()}
        for row in range(count)
    ]


def write_records(shell: Any, records: list[dict[str, Any]], suffix: str) -> Path:
    if suffix in ("csv", "bom"):
        text = io.StringIO()
        table = csv.DictWriter(text, list(records[0]), delimiter=";" if suffix == "bom" else ",")
        table.writeheader()
        table.writerows(records)
        return shell.write("data.csv", ("\ufeff" if suffix == "bom" else "") + text.getvalue())
    if suffix == "xlsx":
        openpyxl = pytest.importorskip("openpyxl", reason="reads Excel")
        book = openpyxl.Workbook()
        for line in (list(records[0]), *(list(record.values()) for record in records)):
            book.active.append(line)
        book.save(shell.folder / "data.xlsx")
        return shell.folder / "data.xlsx"
    if suffix == "json":
        return shell.write("data.json", json.dumps(records))
    return shell.write("data.jsonl", jsonl(records))


FORMS: dict[str, tuple[str, dict[str, Sequence[Any]], str, str | None]] = {
    "two labels": ("csv", {"query": TEXTS, "reply": TEXTS, "reviewer_label": ["ok", "poor"]}, "JudgeUnit", "reviewer_label"),
    "a category": ("csv", {"Kind": ["x", "y"], "Topic": ["Art", "Law"], "Question": TEXTS, "Best Reply": TEXTS}, "JudgeUnit", None),
    "links": ("jsonl", {"claim": TEXTS, "link": ["https://example.org/a", "https://example.org/b"]}, "JudgeUnit", None),
    "pairs with a tie": ("jsonl", {"task": TEXTS, "answer a": TEXTS, "answer b": TEXTS[::-1], "label": [2, 0, 1]}, "PairwiseJudgeUnit", "label"),
    "pairs by number": ("json", {"task": TEXTS, "reply_1": TEXTS, "reply_2": TEXTS[::-1], "winner": [2, 1]}, "PairwiseJudgeUnit", "winner"),
    "duplicates": ("jsonl", {"question1": TEXTS, "question2": TEXTS, "is_duplicate": [0, 1]}, "JudgeUnit", "is_duplicate"),
    "turns": ("jsonl", {"category": ["maths", "prose"], "turns": [["a", "b"], ["c", "d"]]}, "JudgeUnit", None),
    "solutions": ("jsonl", {"problem": TEXTS, "result": ["4", "5"], "solution": TEXTS, "was_right": [True, False]}, "JudgeUnit", "was_right"),
    "a constant": ("jsonl", {"team": ["A"], "verdict": ["open"], "question": TEXTS, "reply": TEXTS}, "JudgeUnit", None),
    "multiple choice": ("csv", {"question": TEXTS, "opt1": ["a", "b"], "opt2": ["c", "d"], "opt3": ["e", "f"], "label": [1, 2, 3]}, "BestOfKJudgeUnit", "label"),
    "best answers": ("csv", {"Type": ["Trap", "Plain"], "Category": ["Law", "Art"], "Question": TEXTS, "Best Answer": TEXTS, "Wrong Answers": ["a; b", "c"]}, "JudgeUnit", None),
    "one model's outputs": ("json", {"dataset": ["own", "other"], "instruction": TEXTS, "output": TEXTS, "generator": ["m-1"]}, "JudgeUnit", None),
    "a tie of 1.5": ("json", {"instruction": TEXTS, "output_1": TEXTS, "output_2": TEXTS[::-1], "annotator": ["m"], "preference": [1, 2, 1.5]}, "PairwiseJudgeUnit", None),
    "skills": ("jsonl", {"question_id": range(12), "text": TEXTS, "answer": TEXTS, "metrics": [["Logic", "Facts"], ["Tone"]], "difficulty": ["1. low", "2. high"]}, "JudgeUnit", None),
    "turns with a reference": ("jsonl", {"question_id": range(12), "category": ["sums", "essay"], "turns": [["a", "b"], ["c", "d"]], "reference": [["x"], ["y"]]}, "JudgeUnit", None),
    "pairs of talks": ("jsonl", {"winner": ["model_a", "model_b", "tie"], "judge": ["e-1", "e-2"], "conversation_a": [[{"role": "user", "content": "Hi"}]], "conversation_b": [[{"role": "user", "content": "Ho"}]]}, "PairwiseJudgeUnit", "winner"),
    "another script": ("jsonl", {"question_id": range(12), "category": ["专业", "数学"], "question": ["谁是第一?", "水是什么?", "光多快?"], "reference": ["他是第一。", "水是化合物。", "很快。"]}, "JudgeUnit", None),
    "reports": ("jsonl", {"company": ["A Corp", "B Inc"], "doc_name": ["A_10K", "B_10K"], "question_type": ["by metrics", "by domain"], "question": TEXTS, "answer": ["$15.00", "$8.70", "Yes"], "doc_link": ["https://example.org/a.pdf"], "evidence": [[{"page": 3}]]}, "JudgeUnit", None),
    "rubric levels": ("jsonl", {"my_criteria": TEXTS, "my_instruction": TEXTS, "my_response": TEXTS, "my_score1_description": TEXTS, "my_score2_description": TEXTS[::-1], "my_score": ["1", "3", "5"]}, "JudgeUnit", "my_score"),
    "rated talks": ("json", {"id": range(12), "conversations": [[{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]], "rating": [1, 4, 5]}, "JudgeUnit", "rating"),
    "an agent": ("jsonl", {"task_id": range(12), "task": TEXTS, "trajectory": [[{"role": "user", "content": "do"}, {"role": "assistant", "content": "done"}]], "reward": [0.0, 1.0], "steps": [3, 9]}, "JudgeUnit", "reward"),
    "a web agent": ("json", {"task_id": range(12), "sites": [["shop"], ["map"]], "intent": TEXTS, "answer": TEXTS, "success": [True, False]}, "JudgeUnit", "success"),
    "pairs by votes": ("csv", {"id": range(12), "model_a": ["x", "y"], "model_b": ["z", "w"], "prompt": TEXTS, "response_a": TEXTS, "response_b": TEXTS[::-1]}, "PairwiseJudgeUnit", None),
    "choice with indices": ("jsonl", {"example_id": range(12), "question_index": ["1", "2"], "context": TEXTS, "question": TEXTS, "ans0": ["The man", "It"], "ans1": ["The boy", "He"], "ans2": ["Unknown"], "label": [0, 1, 2]}, "BestOfKJudgeUnit", "label"),
    "lettered options": ("csv", {"question": TEXTS, "A": ["1", "a"], "B": ["2", "b"], "C": ["3", "c"], "D": ["4", "d"], "answer": ["A", "B", "C", "D"]}, "BestOfKJudgeUnit", "answer"),
    "a list of options": ("jsonl", {"ind": range(12), "ctx": TEXTS, "endings": [["a", "b", "c", "d"], ["e", "f", "g", "h"]], "label": ["0", "3", "2"]}, "BestOfKJudgeUnit", "label"),
    "a sheet": ("xlsx", {"Ticket ID": range(12), "Customer message": TEXTS, "Agent reply": TEXTS, "Resolved?": ["yes", "no"], "Priority": ["high", "low"], "Agent": ["Ann", "Bob"]}, "JudgeUnit", None),
    "a sheet of ratings": ("xlsx", {"Prompt": TEXTS, "Response": TEXTS, "Quality (1-5)": [1, 3, 5], "Comment": TEXTS}, "JudgeUnit", "Quality (1-5)"),
    "a byte order mark": ("bom", {"prompt": TEXTS, "response": TEXTS, "label": ["pass", "fail"]}, "JudgeUnit", "label"),
    "numbers below zero": ("csv", {"src": TEXTS, "mt": TEXTS, "ref": TEXTS, "score": [0.1, -0.4, 0.7], "lp": ["en-de", "en-fr"]}, "JudgeUnit", "score"),
    "books": ("csv", {"isbn": ["97801", "97802"], "issue": ["12", "13"], "title": TEXTS, "review": TEXTS, "stars": [1, 3, 5]}, "JudgeUnit", "stars"),
    "a checklist": ("jsonl", {"session_id": range(12), "conversation_input": [[{"role": "user", "content": "Hi"}]], "checklist": [["Is it?", "Does it?"]], "response": TEXTS}, "JudgeUnit", None),
    "winners as 0 and 1": ("csv", {"model_a": ["m", "n"], "model_b": ["o", "p"], "task": TEXTS, "reply_a": TEXTS, "reply_b": TEXTS[::-1], "winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0], "winner_tie": [0, 0, 1]}, "PairwiseJudgeUnit", None),
    "wins by words": ("csv", {"source": TEXTS, "summary_x": TEXTS, "summary_y": TEXTS[::-1], "x_wins": ["yes", "no"], "y_wins": ["no", "yes"]}, "JudgeUnit", None),
    "a score of each": ("jsonl", {"query": TEXTS, "answer_0": TEXTS, "answer_1": TEXTS[::-1], "score_0": [0.5, -1], "score_1": [-0.5, 1]}, "PairwiseJudgeUnit", None),
    "one side's name": ("jsonl", {"task": TEXTS, "reply_a": TEXTS, "reply_b": TEXTS[::-1], "a_is_better": [True, False]}, "PairwiseJudgeUnit", None),
    "names of systems": ("csv", {"task": TEXTS, "base_output": TEXTS, "gpt4_output": TEXTS[::-1], "choice": ["gpt-4", "base", "tie"]}, "JudgeUnit", None),
    "a sentence": ("csv", {"task": TEXTS, "A": TEXTS, "B": TEXTS[::-1], "verdict": ["A is slightly better", "B is better", "Tie"]}, "PairwiseJudgeUnit", None),
    "a slider": ("jsonl", {"context": [[{"role": "user", "content": "Hi"}]], "response1": TEXTS, "response2": TEXTS[::-1], "overall_preference": [-3, -1, 2]}, "PairwiseJudgeUnit", None),
    "safer and better": ("jsonl", {"prompt": TEXTS, "response_0": TEXTS, "response_1": TEXTS[::-1], "is_response_0_safe": [True, False], "is_response_1_safe": [True, True], "better_response_id": [0, 1]}, "PairwiseJudgeUnit", None),
    "chosen by whom": ("jsonl", {"prompt": TEXTS, "chosen": TEXTS, "chosen_model": ["a", "b"], "rejected": TEXTS[::-1], "rejected_model": ["c", "d"], "score_chosen": [9.1, 8], "score_rejected": [2, 3.5]}, "PairwiseJudgeUnit", None),
    "pairs in a list": ("jsonl", {"info": [{"id": "a", "post": text} for text in TEXTS], "summaries": [[{"text": "one of two", "policy": "p"}, {"text": "the other of two", "policy": "q"}]], "choice": [0, 1]}, "JudgeUnit", None),
    "German": ("csv", {"Frage": TEXTS, "Antwort": TEXTS, "Bewertung": ["gut", "mittel", "schlecht"]}, "JudgeUnit", None),
    "German pairs": ("csv", {"Aufgabe": TEXTS, "Antwort A": TEXTS, "Antwort B": TEXTS[::-1], "Sieger": ["A", "B", "Unentschieden"]}, "PairwiseJudgeUnit", None),
    "Chinese": ("jsonl", {"指令": ["请写一首关于春天的诗歌", "请介绍一下长城的历史"], "输出": ["春风吹过绿草地,花开满园香气扑鼻", "长城始建于春秋战国时期,绵延万里"], "评价": ["好", "坏"]}, "JudgeUnit", None),
    "a flaw": ("json", {"knowledge": TEXTS, "question": TEXTS, "answer": TEXTS, "hallucination": ["yes", "no"]}, "JudgeUnit", "hallucination"),
    "a toxic talk": ("jsonl", {"conversation": [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]], "toxic": [True, False], "redacted": [True, False], "state": ["Texas", "Ohio"]}, "JudgeUnit", "toxic"),
    "aspects": ("csv", {"review": TEXTS, "cleanliness": [1, 2, 5], "service": [3, 4, 5], "overall": [2, 3, 5]}, "JudgeUnit", "overall"),
    "one aspect": ("csv", {"story": TEXTS, "naturalness": [1, 4, 7], "city": ["Rome", "Oslo"], "priority": [1, 2, 3]}, "JudgeUnit", None),
    "stars in words": ("csv", {"review": TEXTS, "rating": ["1 star", "3 stars", "5 stars"]}, "JudgeUnit", "rating"),
    "thumbs": ("csv", {"trace_id": ["x1", "x2"], "input": TEXTS, "output": TEXTS, "user_feedback": ["thumbs_up", "thumbs_down"], "latency_ms": [7, 9]}, "JudgeUnit", None),
    "thumbs as pictures": ("jsonl", {"prompt": TEXTS, "answer": TEXTS, "feedback": ["👍", "👎"]}, "JudgeUnit", None),
    "signs": ("csv", {"text": TEXTS, "verdict": ["+", "-"]}, "JudgeUnit", "verdict"),
    "spam": ("csv", {"v1": ["ham", "spam"], "v2": TEXTS}, "JudgeUnit", None),
    "the best of four": ("jsonl", {"prompt": TEXTS, "response_1": TEXTS, "response_2": TEXTS, "response_3": TEXTS, "response_4": TEXTS, "best": [1, 2, 4]}, "BestOfKJudgeUnit", "best"),
    "the best of a list": ("jsonl", {"prompt": TEXTS, "responses": [list(TEXTS)], "best_index": [0, 1, 2]}, "BestOfKJudgeUnit", "best_index"),
    "several without labels": ("csv", {"prompt": TEXTS, "output_1": TEXTS, "output_2": TEXTS, "output_3": TEXTS, "rank_1": [1, 2, 3], "rank_2": [2, 3, 1]}, "BestOfKJudgeUnit", None),
    "two options": ("csv", {"sentence": TEXTS, "option1": ["Ann", "Bob"], "option2": ["Eve", "Jim"], "answer": [1, 2]}, "JudgeUnit", None),
    "options within a column": ("jsonl", {"question": TEXTS, "choices": [{"text": ["a", "b", "c"], "label": ["A", "B", "C"]}], "answerKey": ["A", "B", "C"]}, "BestOfKJudgeUnit", "answerKey"),
    "options by letter": ("jsonl", {"question": TEXTS, "options": [{"A": "a", "B": "b", "C": "c"}], "answer": TEXTS, "answer_idx": ["A", "B", "C"]}, "JudgeUnit", None),
    "yes or no questions": ("jsonl", {"question": TEXTS, "passage": TEXTS, "answer": [True, False]}, "JudgeUnit", None),
    "turns of speakers": ("jsonl", {"transcript": [[{"speaker": "agent", "text": "a text that is long enough"}, {"speaker": "caller", "text": "so is this one here"}]], "resolved": ["Y", "N"]}, "JudgeUnit", None),
    "documents": ("jsonl", {"query": TEXTS, "documents": [[{"id": "d", "text": "a text that is long enough"}], [{"id": "d", "text": "so is this one here"}] * 2], "answer": TEXTS, "is_faithful": [0, 1]}, "JudgeUnit", "is_faithful"),
    "code with tests": ("jsonl", {"task_id": range(12), "description": TEXTS, "generated_code": ["print(a + b) # sum of two", "print(a - b) # not so"], "public_tests": [{"input": ["1 2"], "output": ["3"]}], "pass_at_1": [0, 1]}, "JudgeUnit", None),
    "facts": ("jsonl", {"claim": TEXTS, "evidence_text": TEXTS, "label": ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]}, "JudgeUnit", "label"),
    "an empty column": ("csv", {"": range(12), "prompt": TEXTS, "response": TEXTS, "eval": ["Pass", "Fail"], "comments": [""]}, "JudgeUnit", None),
    "nulls": ("jsonl", {"question": [None, *TEXTS], "answer": [*TEXTS, None], "label": ["good", None, "bad"]}, "JudgeUnit", "label"),
    "prompts about safety": ("csv", {"prompt": TEXTS, "category": ["weapons", "fraud"], "source": ["own", "web"]}, "JudgeUnit", None),
    "names that only begin so": ("csv", {"hash": ["ab1c", "cd2e"], "issue": [0, 1, 2, 3], "isbn13": ["97801", "97802"], "hasher": ["x", "y"], "text": TEXTS}, "JudgeUnit", None),
    "an assertion": ("csv", {"message": TEXTS, "violates_policy": [0, 1], "policy": ["hate", "spam"]}, "JudgeUnit", None),
    "the best candidate": ("jsonl", {"instruction": TEXTS, "candidates": [list(TEXTS)], "best_candidate": [0, 1, 2]}, "BestOfKJudgeUnit", "best_candidate"),
    "a quality check": ("csv", {"Ref": [f"R{n}" for n in range(12)], "Enquiry": TEXTS, "Reply sent": TEXTS, "Quality check": ["Pass", "Fail", "Needs work"]}, "JudgeUnit", None),
    "only numbers": ("csv", {"height": [1, 2, 3], "width": [4, 5, 6]}, "JudgeUnit", None),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_defaults_are_the_judge_that_a_person_expects(shell, form):
    suffix, columns, unit, target = FORMS[form]
    data = write_records(shell, cycled(columns), suffix)
    done = shell("init", data, "--yes")
    assert done.code == 0, done.err
    document = read_document(shell.folder / "judge.yaml").data
    assert document["pipeline"][-1]["unit"] == unit
    targets = [
        str(item.get("target")) for item in document["evaluate"].values() if "target" in item
    ]
    assert bool(targets) == (target is not None) and all(str(target) in text for text in targets)
    if target is None:
        err = " ".join(done.err.split())
        assert "No column is taken for the right answers" in err or "do not say which of" in err
    prompt = document["pipeline"][0]["prompt"]
    assert target is None or f"source.{target}}}" not in prompt
    assert "https" not in str(document) and not (shell.folder / "pipeline.schema.json").exists()
    assert (
        shell("run", "judge.yaml", data, "--model", "baseline/lexical", "--out", "whole").code == 0
    )


@pytest.mark.parametrize("form", FORMS)
def test_pressing_enter_alone_ends_with_a_pipeline(shell, form, monkeypatch):
    suffix, columns, *_ = FORMS[form]
    data = write_records(shell, cycled(columns), suffix)
    monkeypatch.setattr("verdict_cli.cli.console.is_interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 7))
    done = shell("init", data, "--no-try", "--quiet")
    assert done.code == 0 and " ! " not in done.err, done.err
    assert shell("validate", "judge.yaml", data).code == 0


READ = {
    "reports": (["question", "answer"], "Is the answer good?"),
    "solutions": (["problem", "solution"], "Should the solution be labelled 'was right'?"),
    "skills": (["text", "answer"], "Is the answer good?"),
    "an agent": (["task", "trajectory"], "Should the trajectory be labelled 'reward'?"),
    "a web agent": (["intent", "answer"], "Should the answer be labelled 'success'?"),
    "a sheet": (["Customer message", "Agent reply"], "Is the Agent reply good?"),
    "a sheet of ratings": (["Prompt", "Response"], "What is the Quality (1-5) of the Response?"),
    "one model's outputs": (["instruction", "output"], "Is the output good?"),
    "rubric levels": (["my_criteria", "my_instruction", "my_response", "my_score1_description", "my_score2_description"], "How good is the my response?"),
    "duplicates": (["question1", "question2"], "Should the question2 be labelled 'is duplicate'?"),
    "lettered options": (["question"], "Which option is best?"),
    "a list of options": (["ctx"], "Which option is best?"),
    "a byte order mark": (["prompt", "response"], "How good is the response?"),
    "numbers below zero": (["src", "mt", "ref"], "How good is the mt?"),
    "a flaw": (["knowledge", "question", "answer"], "Should the answer be labelled 'hallucination'?"),
    "a toxic talk": (["conversation"], "Should the conversation be labelled 'toxic'?"),
    "one aspect": (["story"], "Is the story good?"),
    "facts": (["claim", "evidence_text"], "What is the label of the claim?"),
    "the best of four": (["prompt", "response_1", "response_2", "response_3", "response_4"], "Which option is best?"),
    "pairs in a list": (["info.post"], "Is the post good?"),
    "yes or no questions": (["question", "passage", "answer"], "Is the answer good?"),
    "turns of speakers": (["transcript"], "Is the transcript good?"),
    "code with tests": (["description", "generated_code", "public_tests.input", "public_tests.output"], "Is the generated code good?"),
    "options by letter": (["question", "answer"], "Is the answer good?"),
}  # fmt: skip


@pytest.mark.parametrize("form", READ)
def test_the_judge_reads_the_judged_column_and_its_prompt_asks_about_it(shell, form):
    suffix, columns, *_ = FORMS[form]
    done = shell(
        "init", write_records(shell, cycled(columns), suffix), "--yes", "--no-try", "--quiet"
    )
    read, question = READ[form]
    assert f"The judge reads {', '.join(read)} and is asked: {question}" in " ".join(
        done.err.split()
    )


@pytest.mark.parametrize(
    ("column", "question"),
    [
        ("messages", "Are the messages good?"),
        ("agent_replies", "Are the agent replies good?"),
        ("analysis", "Is the analysis good?"),
        ("access", "Is the access good?"),
    ],
)
def test_the_question_agrees_with_the_number_of_the_column(shell, column, question):
    rows = [{column: f"a text of several words {place}"} for place in range(30)]
    done = shell("init", shell.write("d.jsonl", jsonl(rows)), "--yes", "--no-try", "--quiet")
    assert f"is asked: {question}" in " ".join(done.err.split()), done.err


@pytest.mark.parametrize(
    ("form", "scale"),
    [
        ("a byte order mark", "[fail, pass]"), ("a sheet of ratings", "[1, 5]"), ("a flaw", "boolean"),
        ("numbers below zero", "{type: continuous, min: -1.0, max: 1.0}"),
    ],
)  # fmt: skip
def test_the_scale_is_that_of_the_labels(shell, form, scale):
    suffix, columns, *_ = FORMS[form]
    shell("init", write_records(shell, cycled(columns), suffix), "--yes", "--no-try", "--quiet")
    text = (shell.folder / "judge.yaml").read_text(encoding="utf-8")
    assert f"scale: {scale}" in text or f": {scale}" in text


@pytest.mark.parametrize(
    "form", ["winners as 0 and 1", "one side's name", "a score of each", "a slider"]
)
def test_a_label_of_one_side_is_never_read_as_the_choice(shell, form):
    suffix, columns, *_ = FORMS[form]
    done = shell("init", write_records(shell, cycled(columns), suffix), "--yes", "--no-try")
    assert done.code == 0 and "read as choices" not in done.err
    assert "target" not in read_document(shell.folder / "judge.yaml").data["evaluate"]["preference"]


def test_rows_that_lack_columns_have_no_label_and_are_judged(shell):
    records = cycled(
        {"question": TEXTS, "answer": TEXTS, "context": TEXTS, "label": ["good", "bad"]}
    )
    for row, record in enumerate(records):
        if row % 3:
            del record["context"]
        if row % 4 == 0:
            del record["label"]
    data = write_records(shell, records, "jsonl")
    assert "The judge reads question, answer and" in shell("init", data, "--yes").err
    done = shell("run", "judge.yaml", data, "--json")
    assert done.code == 0 and done.json()["evaluations"]["agreement"]["accuracy"]["n"] == 9


def test_every_part_of_a_row_that_is_judged_is_in_the_prompt(shell):
    suffix, columns, *_ = FORMS["a checklist"]
    shell("init", write_records(shell, cycled(columns), suffix), "--yes", "--no-try")
    prompt = read_document(shell.folder / "judge.yaml").data["pipeline"][0]["prompt"]
    assert "{source.conversation_input}" in prompt and "{source.response}" in prompt


@pytest.mark.parametrize(
    ("columns", "judged"),
    [
        (["question", "answer", "reference_answer"], "answer"),
        (["Question", "Best Answer", "Correct Answers"], "Best Answer"),
        (["premise", "hypothesis"], "hypothesis"),
        (["claim", "evidence"], "claim"),
        (["question", "reference"], "reference"),
    ],
)
def test_references_and_questions_are_not_what_is_judged(columns, judged):
    read = [DatasetColumn((name,), TEXTS) for name in columns]
    assert main_column(read).name == judged


def test_codes_are_not_judged(shell):
    records = [{"ticket": f"T-{row}", "text": TEXTS[row % 3]} for row in range(9)]
    assert shell("init", write_records(shell, records, "jsonl"), "--yes").code == 0
    document = read_document(shell.folder / "judge.yaml").data
    assert "ticket" not in document["pipeline"][0]["prompt"]


def test_of_two_labels_the_bad_one_is_the_class_that_matters(shell):
    suffix, columns, *_ = FORMS["two labels"]
    data = write_records(shell, cycled(columns), suffix)
    shell("init", data, "--yes")
    done = shell("run", "judge.yaml", data, "--model", "baseline/lexical", "--json")
    metrics = done.json()["evaluations"]["agreement"]
    assert {
        "accuracy",
        "precision",
        "recall",
        "f1",
        "cohen_kappa",
    } <= metrics.keys() and "spearman" not in metrics
    assert "positive: poor" in (shell.folder / "judge.yaml").read_text()


def test_the_reading_of_numbers_as_choices_is_mentioned(shell):
    suffix, columns, *_ = FORMS["pairs with a tie"]
    done = shell("init", write_records(shell, cycled(columns), suffix), "--yes", "--no-try")
    assert "0 is A, 1 is B, 2 is tie" in " ".join(done.err.split()).replace(
        "2 is tie, 0 is A, 1 is B", "0 is A, 1 is B, 2 is tie"
    )


VALUES = st.sampled_from([
    TEXTS, ("yes", "no"), (1, 2, 5), (0.5, 0.25), ("a", "b", "c", "d"), ("",), (None, "x"), (True, False), ("T-1", "T-2"),
    (["a", "b"], ["c"]), ({"k": "v"}, {"k": "w"}), ("good", "bad", "so so"), ("2", "3"), tuple(f"word{n}" for n in range(30)),
])  # fmt: skip
NAMES = st.sampled_from([
    "id", "question", "answer", "label", "Category", "score", "response_a", "response_b", "option 1", "option 2", "option 3",
    "it's", "a.b", "conversations", "contexts", "rating", "winner", "größe", "source", "is_ok", "human_label",
])  # fmt: skip


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=6).filter(
        lambda columns: any(map(any, columns.values()))
    )
)
def test_the_defaults_alone_always_give_a_pipeline_that_validates(shell, columns):
    data = write_records(shell, cycled(columns, 6), "jsonl")
    done = shell("init", data, "--yes", "--no-try", "--force", "--quiet")
    assert done.code == 0, (columns, done.err)
