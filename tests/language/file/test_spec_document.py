"""A pipeline file's YAML: what loads, where it stands, and what is said about what does not."""

import json
import math
import pathlib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.source_positions import Document, Position, format_path


def load(text: str | bytes) -> Document:
    return parse_document(text.encode() if isinstance(text, str) else text, "p.yaml")


def problems(text: str | bytes) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text)
    assert all(problem.file == "p.yaml" for problem in caught.value.problems)
    return caught.value.problems


def problem(text: str | bytes) -> Problem:
    (only,) = problems(text)
    return only


def scalar(text: str):
    return load(f"a: {text}").data["a"]


# The core schema


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, None) for text in ("null", "Null", "NULL", "~", "")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *(
            (text, text)
            for text in ("yes", "no", "on", "off", "y", "n", "Yes", "NO", "tRue", "nULL")
        ),
        *(
            (text, text)
            for text in ("1_000", "12:30:45", "2020-01-01", "0b1", "0o8", "0xg", "+0o7", "1e", ".")
        ),
        *((text, text) for text in ("NaN", "inf", "nan", "=", "<<", "١٢", "1.2.3")),
        ("0777", 777),
        ("-12", -12),
        ("+0", 0),
        ("0o17", 15),
        ("0xFf", 255),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5e3", 500.0),
        ("1e3", 1000.0),
        ("-1E-2", -0.01),
        ("'1'", "1"),
        ('"true"', "true"),
        ("'<<'", "<<"),
        ("|\n  12\n", "12\n"),
        (">-\n  null\n", "null"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!str", ""),
        ("!!int '7'", 7),
        ("!!float 1", 1.0),
        ("!!bool 'true'", True),
        ("!!null ''", None),
        ("!!map {b: 1}", {"b": 1}),
        ("!!seq [1]", [1]),
    ],
)
def test_scalars_are_read_as_the_core_schema_says(text, value):
    value_read = scalar(text)
    assert value_read == value and type(value_read) is type(value)


def test_keys_are_resolved_as_values_are():
    assert load("yes: 1\n1: 2\n0.5: 3\nfalse: 4\n'1': 5").data == {
        "yes": 1,
        1: 2,
        0.5: 3,
        False: 4,
        "1": 5,
    }


@pytest.mark.parametrize(
    "text", [".inf", "-.INF", "+.Inf", ".nan", ".NaN", "1e999", "-1e999", "!!float .inf"]
)
def test_a_number_that_is_not_finite_is_refused(text):
    error = problem(f"a: {text}")
    assert error.code == "not-finite" and "not a finite number" in error.message


@pytest.mark.parametrize(
    "text", ["9" * 4301, "-" + "9" * 5000, "0x" + "f" * 5000, "0o" + "7" * 9000]
)
def test_a_number_too_long_for_python_is_refused(text):
    assert problem(f"a: {text}").code == "number-too-long"


def test_a_number_of_300_digits_loads_and_no_longer_one():
    assert scalar("9" * 300) == 10**300 - 1
    assert problem(f"a: {'9' * 301}").code == "number-too-long"


@pytest.mark.parametrize(
    "text",
    [
        "!x 1",
        "!!python/none",
        "!!python/object/apply:os.system ['ls']",
        "!!set {a}",
        "!!binary aGk=",
        "!<tag:x> 1",
    ],
)
def test_custom_tags_are_refused(text):
    error = problem(f"a: {text}")
    assert error.code == "tag" and "!!str" in error.hint and (error.line, error.column) == (1, 4)


@pytest.mark.parametrize(
    "text", ["!!int abc", "!!bool yes", "!!null 0", "!!float x", "!!int [1]", "!!seq {}", "!!map 3"]
)
def test_a_core_tag_that_does_not_fit_its_value_is_refused(text):
    assert problem(f"a: {text}").code == "tag"


# Strings


@pytest.mark.parametrize("special", ["\x85", "\u2028", "\u2029", "\ufeff"])
def test_only_line_feed_and_carriage_return_break_lines(special):
    document = load(f'a: "x{special}y"\nb: x{special}y\n')
    assert document.data == {"a": f"x{special}y", "b": f"x{special}y"}
    assert document.key_at(("b",)) == Position(2, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: {b: str?, c: d?e}", {"b": "str?", "c": "d?e"}),
        ("a: [x?, y?z?]", ["x?", "y?z?"]),
        ("a: {b?: 1}", {"b?": 1}),
        ("a: 'x?'", "x?"),
        ("a: really?", "really?"),
        ('a: "x\\x3f?"', "x??"),
        ("? a\n: {? b : c}", {"b": "c"}),
    ],
)
def test_a_question_mark_within_a_word_is_a_character(text, value):
    assert load(text).data == {"a": value}


def test_private_use_characters_that_are_in_for_others_are_preserved():
    text = "\U000f0000\u2028\U000f0001"
    assert load(f'a: "{text}"').data == {"a": text}
    assert load('a: "\\U000F0000\u2028\\U000f0001"').data == {"a": text}
    assert load('a: "\\udb80\\udc00\u2028"').data == {"a": "\U000f0000\u2028"}


def test_a_json_surrogate_pair_is_one_character():
    assert scalar(json.dumps("😀")) == "😀"


def test_half_a_surrogate_pair_is_refused():
    assert problem(r'a: "\ud83d"').code == "surrogate"


def test_crlf_is_a_line_break():
    document = load(b"a: |\r\n  x\r\n  y\r\nb: 1\r\n")
    assert document.data == {"a": "x\ny\n", "b": 1}
    assert document.value_at(("b",)) == Position(4, 4)


def test_a_byte_order_mark_is_accepted():
    document = load(b"\xef\xbb\xbfa: 1")
    assert document.data == {"a": 1} and document.key_at(("a",)) == Position(1, 1)


# Tabs


def test_json_indented_with_tabs_loads():
    assert load('{\n\t"a":\t[1,\t2],\n\t"b":\t{\t}\n}\n').data == {"a": [1, 2], "b": {}}


def test_tabs_separate_and_trail_in_blocks():
    assert load("a:\t1\t# one\n\t\nb:\t'x'\t\n").data == {"a": 1, "b": "x"}


@pytest.mark.parametrize("text", ["a:\n\tb: 1", "a:\n \t- 1", "a:\n-\tb: 1", "\ta: 1"])
def test_a_tab_as_indentation_is_refused(text):
    error = problem(text)
    assert "tab" in error.message and "spaces" in error.hint


# Positions


NESTED = """\
pipeline:
  - unit: A
  - layer:
      - {name: x, scale: likert}
    'a b': &anchor
      deep: [1, 2]
copy: *anchor
empty:
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), (1, 1), (1, 1)),
        (("pipeline",), (2, 3), (1, 1)),
        (("pipeline", 0), (2, 5), (2, 5)),
        (("pipeline", 0, "unit"), (2, 11), (2, 5)),
        (("pipeline", 1, "layer", 0, "scale"), (4, 26), (4, 19)),
        (("pipeline", 1, "a b"), (5, 12), (5, 5)),
        (("pipeline", 1, "a b", "deep", 1), (6, 17), (6, 17)),
        (("copy",), (5, 12), (7, 1)),
        (("copy", "deep"), (6, 13), (6, 7)),
        (("empty",), (8, 7), (8, 1)),
    ],
)
def test_every_key_and_value_has_its_place(path, value, key):
    document = load(NESTED)
    assert document.value_at(path) == Position(*value)
    assert document.key_at(path) == Position(*key)


@pytest.mark.parametrize(
    "path", [("pipeline", 7), ("pipeline", "x"), ("pipeline", -1), ("pipeline", 7, "y", 2)]
)
def test_a_path_that_does_not_exist_has_the_place_of_its_nearest_ancestor(path):
    document = load(NESTED)
    assert document.value_at(path) == document.key_at(path) == document.value_at(("pipeline",))


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ((), ""),
        (("name",), "name"),
        (("pipeline", 1, "layer", 0, "scale"), "pipeline[1].layer[0].scale"),
        (("models", "a b", "name"), "models['a b'].name"),
        (("gpt-4o",), "['gpt-4o']"),
        (("scores", True, 0.5), "scores[true][0.5]"),
    ],
)
def test_a_path_is_spelled_as_one_would_write_it(path, spelled):
    assert format_path(path) == spelled


# Keys


def test_every_duplicate_key_is_named_with_its_first_line():
    duplicates = problems("a: 1\nb: {c: 1, c: 2}\na: 2\n'a': 3\n")
    assert [(duplicate.line, duplicate.column, duplicate.path) for duplicate in duplicates] == [
        (2, 11, "b.c"),
        (3, 1, "a"),
        (4, 1, "a"),
    ]
    assert all(duplicate.code == "duplicate-key" for duplicate in duplicates)
    assert "line 2" in duplicates[0].message and "line 1" in duplicates[1].message


def test_keys_are_compared_by_value():
    assert problem("10: a\n0xa: b").code == "duplicate-key"


def test_a_string_and_a_number_are_different_keys():
    assert load("1: a\n'1': b").data == {1: "a", "1": "b"}


@pytest.mark.parametrize(
    "text", ["[a]: 1", "{a: 1}: 2", "? - a\n: 1", "null: 1", "~: 1", "a: {{b}}"]
)
def test_a_key_that_is_no_word_is_refused(text):
    assert problem(text).code == "key"


def test_a_key_that_is_nothing_is_told_how_to_write_it():
    (problem,) = problems("a: {null: 1}")
    assert problem.hint == "Write the key before its colon, `null` and `~` in quotes."
    (problem,) = problems("a: {[b]: 1}")
    assert "Text that begins with `{` or `[` must be in quotes" in problem.hint


def test_a_merge_key_is_refused():
    error = problem("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n")
    assert (
        error.code == "merge-key"
        and "YAML 1.2" in error.hint
        and (error.line, error.path) == (3, "c")
    )


# Aliases


def test_an_alias_is_a_copy():
    data = load("a: &x [{b: 1}]\nc: *x\nd: *x\n").data
    assert data["c"] == data["d"] == [{"b": 1}]
    assert data["c"] is not data["a"] and data["c"][0] is not data["d"][0]


def test_a_later_anchor_of_the_same_name_wins():
    assert load("a: &x 1\nb: *x\nc: &x 2\nd: *x\n").data == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_a_key_may_be_an_alias():
    document = load("a: &x key\n*x : 1\n")
    assert document.data == {"a": "key", "key": 1} and document.key_at(("key",)) == Position(2, 1)


def test_an_unknown_alias_is_refused_with_the_nearest_anchor():
    error = problem("a: &judge 1\nb: *jugde\n")
    assert (
        error.code == "unknown-alias"
        and "*judge" in error.hint
        and (error.line, error.column) == (2, 4)
    )


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: {c: *x}}", "&x a: &x [1, *x]"])
def test_an_alias_inside_its_own_anchor_is_refused(text):
    assert problem(text).code == "recursive-alias"


def test_aliases_expand_to_ten_thousand_values_and_no_more():
    assert len(load("a: &x 1\nb: [" + "*x," * 10_000 + "]").data["b"]) == 10_000
    assert problem("a: &x 1\nb: [" + "*x," * 10_001 + "]").code == "alias-limit"


def test_a_bomb_of_aliases_does_not_go_off():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    assert problem("\n".join(lines)).code == "alias-limit"


# Limits


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("{a: ", "}")])
def test_nesting_reaches_one_hundred_and_no_deeper(begin, end):
    assert load("a: " + begin * 99 + end * 99)
    error = problem("a: " + begin * 100 + end * 100)
    assert error.code == "too-deep" and error.line == 1


def test_aliases_cannot_nest_deeper_either():
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 120))]
    assert problem("\n".join(lines)).code == "too-deep"


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{a: " * 50_000, "- " * 50_000, "? " * 50_000, "a: &x [" * 50_000]
)
def test_endless_nesting_is_one_clear_error(text):
    assert problems(text)[-1].code in ("too-deep", "yaml-syntax")


def test_a_file_of_more_than_ten_mebibytes_is_refused():
    error = problem(b"a: 1\n" + b"#" * 10 * 1024**2)
    assert error.code == "too-large" and "10 MiB" in error.message


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_utf_16_and_32_are_refused(encoding):
    assert problem("a: 1".encode(encoding)).code == "not-utf8"


def test_an_invalid_byte_is_named_with_its_place():
    error = problem("a: 1\r\nb: ä".encode() + b"\xff")
    assert (error.code, error.line, error.column) == ("not-utf8", 2, 5) and "0xff" in error.message


@pytest.mark.parametrize(
    ("character", "name"), [("\x00", "U+0000"), ("\x1b", "U+001B"), ("\x7f", "U+007F")]
)
def test_a_control_character_is_named_with_its_place(character, name):
    error = problem(f"a: 1\nb: x{character}")
    assert (error.code, error.line, error.column) == (
        "control-character",
        2,
        5,
    ) and name in error.message


# The whole


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null", "\ufeff"])
def test_an_empty_file_is_refused(text):
    error = problem(text)
    assert (error.code, error.line, error.column) == ("empty-file", 1, 1)


@pytest.mark.parametrize(
    ("text", "word"), [("- 1", "list"), ("text", "single value"), ("[1]", "list")]
)
def test_a_top_level_that_is_no_mapping_is_refused(text, word):
    error = problem(text)
    assert error.code == "not-a-mapping" and word in error.message


def test_a_second_document_is_refused():
    error = problem("a: 1\n---\nb: 2\n")
    assert (error.code, error.line, error.column) == ("several-documents", 2, 1)


def test_document_markers_and_a_version_directive_are_accepted():
    assert load("%YAML 1.2\n---\na: 1\n...\n").data == {"a": 1}


def test_all_independent_problems_are_reported_at_once():
    errors = problems("a: !x 1\nb: !!int y\na: 2\n<<: 3\nc: .inf\nd: *e\n[f]: 1\n")
    assert [error.code for error in errors] == [
        "tag", "tag", "duplicate-key", "merge-key", "not-finite", "unknown-alias", "key",
    ]  # fmt: skip
    assert [error.line for error in errors] == [1, 2, 3, 4, 5, 6, 7]


def test_a_syntax_error_ends_the_reading_and_keeps_the_errors_before_it():
    assert [problem.code for problem in problems("a: 1\na: 2\nb: 'x\nc: !x 1\n")] == [
        "duplicate-key",
        "yaml-syntax",
    ]


# Syntax in plain words


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("a: 1\nb 2\nc: 3\n", (2, 1), "not a `key: value`", "colon"),
        ("verdict:1\nname: x\n", (2, 5), "`:` cannot stand here", "colon and a space"),
        ("a: 1\n  b: 2\n", (2, 4), "`:` cannot stand here", "Indent"),
        ("prompt: Answer: yes\n", (1, 15), "`:` cannot stand here", "block scalar"),
        ("a: 'x\nb: 1\n", (1, 4), "never closed", "Close it"),
        ('a: "x\n--- y\n', (1, 4), "never closed", "Close it"),
        ("a: it\nb: 'it's'\n", (2, 8), "text is not allowed here", "closing '"),
        ("prompt: {source.x} is it?\n", (1, 20), "text is not allowed here", "block scalar: `prompt: |`"),
        ("a: {b: 1\nc: 2\n", (2, 2), "`{` of line 1 is not closed", "block scalar"),
        ("a: [1, 2\n", (2, 1), "`[` of line 1 is not closed: expected `,` or `]`, found the end", "quotes"),
        ("a:\n  - 1\n b: 2\n", (3, 2), "a key is not allowed here", "Indent"),
        ("- a\nb: 1\n", (2, 1), "in the list that begins on line 1", "Indent"),
        ("a: - b\n", (1, 4), "list item", "line of its own"),
        ("a: ? b\n", (1, 4), "`? ` cannot", "quotes"),
        ("a: @b\n", (1, 4), "'@'", "quotes"),
        ("a: %b\n", (1, 4), "'%'", "quotes"),
        ("a: `b`\n", (1, 4), "'`'", "quotes"),
        ("a: **bold** words\n", (1, 5), "not the name of an alias", "quotes"),
        ("a: & b\n", (1, 5), "not the name of an anchor", "quotes"),
        ("a: | text\n", (1, 6), "may follow `|`", "next line"),
        ("a: |0\n  text\n", (1, 5), "may follow `|`", "next line"),
        ('a: "\\d"\n', (1, 6), "`\\d` is no escape", "single quotes"),
        ("a: \"it\\'s\"\n", (1, 8), "`\\'` is no escape", "single quotes"),
        ('a: "\\xzz"\n', (1, 7), "2 hexadecimal digits", "single quotes"),
        ('a: "\\UFFFFFFFF"\n', (1, 7), "out of range", "U0010FFFF"),
        ("a: ]\n", (1, 4), "expected a value, found `]`", "quotes"),
        ("a: x\ty\n", (1, 6), "text is not allowed here", "tab"),
        ("a: !e!x 1\n", (1, 4), "tag", "quotes"),
        ("%YAML 2.0\n---\na: 1\n", (1, 1), "directive", "`%`"),
        ("a: 1\n...\nb: 2\n", (3, 1), "ended above", "Indent"),
    ],
)  # fmt: skip
def test_a_syntax_error_has_plain_words(text, place, message, hint):
    error = problems(text)[-1]
    assert error.code == "yaml-syntax"
    assert (error.line, error.column) == place
    assert message in error.message and hint in error.hint


# Files


def test_a_file_is_read_with_its_name(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("a: 1\n")
    document = read_document(path)
    assert document.data == {"a": 1} and document.file == str(path)


def unreadable(path: pathlib.Path) -> Problem:
    with pytest.raises(SpecError) as caught:
        read_document(path)
    (only,) = caught.value.problems
    assert only.file == str(path)
    return only


def test_a_missing_file_names_the_nearest_in_its_folder(tmp_path):
    (tmp_path / "xstest.yaml").touch()
    error = unreadable(tmp_path / "xtest.yaml")
    assert error.code == "not-found" and str(tmp_path / "xstest.yaml") in error.hint


def test_a_missing_folder_is_named(tmp_path):
    assert "no directory" in unreadable(tmp_path / "none" / "p.yaml").hint


def test_a_directory_is_no_file(tmp_path):
    assert unreadable(tmp_path).code == "not-a-file"


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "open", refuse)
    assert unreadable(tmp_path / "p.yaml").code == "not-readable"


def test_a_name_that_no_file_can_have_is_an_error():
    assert unreadable(pathlib.Path("a\0b")).code == "not-readable"


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    path = tmp_path / "p.yaml"
    with path.open("wb") as stream:
        stream.truncate(2**25)
    assert unreadable(path).code == "too-large"


# Properties


PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def trees(words: st.SearchStrategy[str]) -> st.SearchStrategy[dict]:
    leaves = st.none() | st.booleans() | st.integers() | FINITE | words
    inner = st.recursive(
        leaves,
        lambda part: st.lists(part, max_size=4) | st.dictionaries(words, part, max_size=4),
        max_leaves=20,
    )
    return st.dictionaries(words, inner, min_size=1, max_size=4)


def same(first, right) -> bool:
    """Equal in type too: 1 is not 1.0, nor True."""
    if type(first) is not type(right):
        return False
    if isinstance(first, dict):
        return first.keys() == right.keys() and all(same(first[key], right[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(right) and all(map(same, first, right))
    return first == right


def paths(data, path=()):
    yield path
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        yield from paths(value, (*path, key))


def check_loads(text: str, data: dict) -> None:
    document = load(text)
    assert same(document.data, data)
    lines = text.split("\n")
    for path in paths(data):
        for place in (document.value_at(path), document.key_at(path)):
            assert 1 <= place.line <= len(lines)
            assert 1 <= place.column <= len(lines[place.line - 1]) + 1


@settings(deadline=None)
@given(trees(st.text(max_size=20)), st.sampled_from([None, 1, "\t"]))
def test_json_loads_equal(data, indent):
    check_loads(json.dumps(data, indent=indent), data)


@settings(deadline=None)
@given(trees(PRINTABLE))
def test_json_with_characters_as_they_are_loads_equal(data):
    check_loads(json.dumps(data, ensure_ascii=False, indent=2), data)


@settings(deadline=None)
@given(trees(st.text(max_size=20)), st.sampled_from([True, False, None]), st.booleans())
def test_double_quoted_yaml_loads_equal(data, flow, characters):
    text = yaml.safe_dump(
        data, default_style='"', default_flow_style=flow, allow_unicode=characters
    )
    check_loads(text, data)


# PyYAML writes YAML 1.1, in which these are line breaks, and folds single-quoted text at them.
ONE_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"), max_size=20)


@settings(deadline=None)
@given(trees(ONE_LINE), st.sampled_from([True, False, None]), st.booleans())
def test_single_quoted_yaml_loads_equal(data, flow, characters):
    text = yaml.safe_dump(
        data, default_style="'", default_flow_style=flow, allow_unicode=characters
    )
    check_loads(text, data)


def check_any(text: bytes) -> None:
    try:
        document = load(text)
    except SpecError as error:
        lines = text.count(b"\n") + text.count(b"\r") + 1
        for problem in error.problems:
            assert (
                problem.code
                and problem.message
                and 1 <= problem.line <= lines
                and problem.column >= 1
            )
            str(problem).encode()
    else:
        assert isinstance(document.data, dict)
        assert not any(
            isinstance(value, float) and not math.isfinite(value)
            for value in document.data.values()
        )


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_load_or_are_a_clear_error(text):
    check_any(text)


TOKENS = st.sampled_from(
    [*"{}[],:-?&*!|>'\"%@`#~\t\r\n \\0a", ": ", "- ", "? ", "&a ", "*a", "!!int ", "!!str ", "<<: ", "\n  ", "a: ",
     "---\n", "...\n", "%YAML 1.2\n", "%TAG ! !\n", "\u2028", "\x85", "\ufeff", '"\\U', '"\\u', "|2\n", ">-\n", "0x", ".inf"]
)  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(st.lists(TOKENS, max_size=40).map("".join))
def test_any_tokens_load_or_are_a_clear_error(text):
    check_any(text.encode())


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_a_mutated_file_loads_or_is_a_clear_error(data):
    text = NESTED.encode() + b'd: "x\\u0041" # y\nf: |\n  text\n  more\ng: !!int 3\n'
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        text = text[:start] + data.draw(st.binary(max_size=3) | TOKENS.map(str.encode)) + text[end:]
    check_any(text)
