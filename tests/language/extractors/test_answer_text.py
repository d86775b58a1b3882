"""What of a reply is thought and what is answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.answer_text import (
    drop_invisible,
    requested_tags,
    split_thoughts,
)
from verdict_cli.language.extractors.post_hoc import PostHocExtractor
from verdict_cli.language.extractors.raw import RawExtractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.fields.types import TEXT, RecordType, ScaleType
from verdict_cli.language.scales.discrete import LIKERT
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
SCORE = RegexExtractor(pattern="FIRST_INT").bind(RecordType({"score": ScaleType(LIKERT)}))
MARKED = [
    "<think>{}</think>\n4",
    "<THINK>{}</THINK>4",
    "<thinking>{}</thinking> 4",
    "<reasoning>\n{}\n</reasoning>\n4",
    "<thought>{}</thought>4",
    "<Reflection>{}</Reflection>\n\n<answer>4</answer>",
    "<antThinking>{}</antThinking>4",
    "<seed:think>{}</seed:think>4",
    "<think >{}</think >4",
    '<details type="reasoning" done="true">\n{}\n</details>\n4',
    "◁think▷{}◁/think▷4",
    "[THINK]{}[/THINK]4",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>4",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>4<|return|>",
    "analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>4",
    "{}<|end|><|start|>assistant<|channel|>final<|message|>4",
    "analysis{}assistantfinal4",
    "<|begin_of_thought|>{}<|end_of_thought|>\n<|begin_of_solution|>4<|end_of_solution|>",
    "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>",
    "<unused94>thought {}<unused95>4",
    "<|channel>thought {}<channel|>4",
    "Here is my thought process: {}\nHere is my response: 4",
    "<|im_start|>assistant\n<think>\n{}\n</think>\n\n4<|im_end|>",
    "{}\n</think>\n\n4",
    "Sure!\n<thinking>\n{}\n</thinking>\n\n4",
    "<think>{}</think>\n<think>and 1</think>\n4",
]


@pytest.mark.parametrize("marked", MARKED)
@pytest.mark.parametrize("thoughts", ["My first thought was 2.", "Score: 2?\nOr 3."])
def test_thoughts_are_no_answer(marked, thoughts):
    text = marked.format(thoughts)
    assert SCORE.read(Reply(text), REQUEST) == {"score": 4}
    assert SCORE.repaired(text)


@pytest.mark.parametrize(
    "text",
    [
        "<think>2</think>",
        "<think>2",
        "2\n</think>\n",
        "Sure!\n<thinking>\n2",
        "<|channel|>analysis<|message|>2<|end|>",
        "<|channel|>analysis<|message|>2",
        "[THINK]2",
        "◁think▷2◁/think▷ ",
        "<think>2</think><|eot_id|>",
        "I refuse; it says </think>2",
        "<think>a <think>2</think> 3</think> 4",
    ],
)
def test_a_reply_of_thoughts_alone_or_without_a_clear_end_of_them_is_unreadable(text):
    with pytest.raises(ReplyError) as caught:
        SCORE.read(Reply(text), REQUEST)
    assert caught.value.failure == "unreadable"


def test_a_quoted_mark_is_text():
    assert SCORE.read(Reply("The `<think>` block scores 4, `</think>` 2"), REQUEST) == {"score": 4}
    assert not SCORE.repaired("It has no `<think>` block: 4")


@pytest.mark.parametrize(
    "mark", ["<|eot_id|>", "<|im_end|>", "</s>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "\ufeff"]
)
def test_end_of_turn_marks_around_an_answer_are_not_part_of_it(mark):
    for text in (f"4{mark}", f"4 {mark}\n", f"{mark}4"):
        assert SCORE.read(Reply(text), REQUEST) == {"score": 4}
        assert SCORE.repaired(text)


@pytest.mark.parametrize("unseen", ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u200e"])
def test_a_character_that_nobody_sees_hides_no_grade(unseen):
    grade = RegexExtractor(pattern=r"Grade: (\d)", match="last").bind(
        RecordType({"score": ScaleType(LIKERT)})
    )
    text = f"Grade: 2? No.\nGra{unseen}de: {unseen}4"
    assert grade.read(Reply(text), REQUEST) == {"score": 4}
    assert drop_invisible(text) == "Grade: 2? No.\nGrade: 4"


def test_tags_that_a_prompt_or_a_pattern_uses_are_preserved():
    assert requested_tags("Reason in <thinking> tags, then give <score>.") == {"thinking"}
    assert requested_tags("<analysis>\n{previous.text}\n</analysis>\nRate it.") == frozenset()
    pattern = RegexExtractor(pattern=r"<thinking>(.*)</thinking>").bind(RecordType({"text": TEXT}))
    assert pattern.read(Reply("<thinking>good</thinking> 4"), REQUEST) == {"text": "good"}


def test_raw_keeps_the_whole_text_and_the_second_call_of_post_hoc_gets_the_answer():
    text = "<think>2</think>4"
    assert RawExtractor().bind(RecordType({"text": TEXT})).read(Reply(text), REQUEST) == {
        "text": text
    }
    first = PostHocExtractor().bind(RecordType({"score": ScaleType(LIKERT)}))
    assert first.read(Reply(text), REQUEST) == {"text": "4"}


PIECES = ["<think>", "</think>", "[THINK]", "[/THINK]", "◁think▷", "<|channel|>", "final", "analysis", "<|message|>", "\n", "2", "`", "</s>", "{"]  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join))
def test_any_text_is_split_or_a_reply_error_and_an_answer_begins_no_block(
    text,
):
    try:
        split = split_thoughts(text)
    except ReplyError as error:
        assert len(str(error)) < 1000
        return
    assert split.thoughts or split.answer.strip() in text
    if not split.doubt:
        assert "\n<think>2</think>\n" not in f"\n{split.answer}\n"
