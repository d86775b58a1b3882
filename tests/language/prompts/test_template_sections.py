"""Message sections and what is put around a prompt."""

import textwrap

from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.language.prompts.sections import (
    dedent,
    frame_prompt,
    split_sections,
    trim_blank_lines,
)

LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=6), max_size=5
).map("\n".join)


@settings(deadline=None)
@given(LINES)
def test_only_common_indentation_and_blank_lines_at_both_ends_are_removed(text):
    lines_left = dedent(text).split("\n")
    whole = textwrap.dedent(text).split("\n")
    full = [place for place, line in enumerate(whole) if line.strip()]
    assert lines_left == (whole[full[0] : full[-1] + 1] if full else [""])


@settings(deadline=None)
@given(LINES)
def test_dedenting_and_trimming_twice_changes_nothing_more(text):
    assert dedent(dedent(text)) == dedent(text)
    assert trim_blank_lines(trim_blank_lines(text)) == trim_blank_lines(text)


def test_a_marker_may_be_indented_and_is_alone_on_its_line():
    assert split_sections("a\n\n  @system \nb\n@assistant\n") == [
        ("user", "a"),
        ("system", "b"),
        ("assistant", ""),
    ]
    assert split_sections("@system: no\n@System\nx@user") == [
        ("user", "@system: no\n@System\nx@user")
    ]


def test_a_text_without_markers_is_one_user_section():
    assert split_sections("") == [("user", "")]
    assert split_sections("a\nb") == [("user", "a\nb")]


def test_windows_line_ends_are_read_as_line_ends():
    assert split_sections(dedent("@system\r\na\r\n@user\r\nb")) == [
        ("system", "a"),
        ("user", "b"),
    ]


def test_what_a_type_adds_is_in_the_prompts_own_sections():
    prompt = (
        "\n    @system\n    Be strict.\n    @user\n      Judge this.\n    @assistant\n    Sure:\n"
    )
    assert split_sections(frame_prompt(prompt, "First.", "Last.")) == [
        ("system", "First.\n\nBe strict."),
        ("user", "  Judge this.\n\nLast."),
        ("assistant", "Sure:"),
    ]
    assert split_sections(frame_prompt("    a\n    b", "First.", "Last.")) == [
        ("user", "First.\n\na\nb\n\nLast.")
    ]
    assert split_sections(frame_prompt("@system\na", after="Last.")) == [
        ("system", "a"),
        ("user", "Last."),
    ]
