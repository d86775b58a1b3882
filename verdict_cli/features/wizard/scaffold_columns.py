"""What `verdict init` recognises in a dataset's columns: their types and roles, columns within columns, and the scores of another
tool (`verdict import`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from verdict_cli.features.wizard.column_words import (
    ABOUT,
    ALTERNATIVES,
    ANNOTATORS,
    ANSWER_KEYS,
    ANSWERS,
    BEST_LABELS,
    CONTENT,
    ENTRIES,
    ENTRY_TEXTS,
    GENERIC,
    JUDGED_BY,
    LABEL_NOUNS,
    META,
    NO_QUALITIES,
    OPTION_NOUNS,
    PREFERENCES,
    QUALITIES,
    REFERENCES,
    ROW_NAMES,
    RUBRICS,
    TESTS,
)
from verdict_cli.features.wizard.scaffold_labels import (
    MAX_CATEGORIES,
    LabelScale,
    given_labels,
    label_words,
    meaning_order,
    numeric,
    proposed_scale,
)
from verdict_cli.language.conversation import looks_like_conversation

ColumnPath = tuple[str | int, ...]
"""A column's name, and the keys and places within it."""

MOST_NESTED = 60
"""Columns within columns that are offered."""
_DEPTH = 3
_MOST_ENTRIES = 4
"""Entries of a list of mappings whose keys are offered as columns, where each row has as many."""
SCORES = "scores"
"""The column of imported logs with the other tool's scores by name."""
_MOST_SCORES = 5
_PLAIN_KEY = re.compile(r"[^{}'\"\\]+")


def nested_columns(samples: Mapping[str, Sequence[Any]]) -> dict[str, tuple[ColumnPath, list[Any]]]:
    """The columns within mappings, such as `conv.id`, and within the same entries of each row's list, such as `turns[0].text`:
    each with its path and its values; None where a row has none.

    A name that a column of the dataset has is that column's.
    """
    inner_columns: dict[str, tuple[ColumnPath, list[Any]]] = {}
    todo: list[tuple[ColumnPath, Sequence[Any]]] = [((name,), values) for name, values in samples.items()]
    while todo and len(inner_columns) < MOST_NESTED:
        path, values = todo.pop(0)
        name = _path_name(path)
        if isinstance(path[-1], str) and len(path) > 1 and name not in samples:
            inner_columns[name] = (path, list(values))
        seen = [value for value in values if value is not None]
        if len(path) > _DEPTH or not seen:
            continue
        inner: list[tuple[ColumnPath, Sequence[Any]]] = []
        if all(isinstance(value, Mapping) for value in seen):
            keys = dict.fromkeys(key for value in seen for key in value if isinstance(key, str))
            inner = [((*path, key), [value.get(key) if value else None for value in values]) for key in keys]
        elif _are_entries(path, values):
            inner = [((*path, index), [value[index] for value in values]) for index in range(len(seen[0]))]
        todo = inner + todo
    return inner_columns


def _path_name(path: ColumnPath) -> str:
    """`turns[0].text`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]


def _are_entries(path: ColumnPath, values: Sequence[Any]) -> bool:
    """Whether each row has a list of as many mappings, each with one of the texts that are compared."""
    lists = all(isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value) for value in values)
    if not lists or head_noun(_path_name(path)) not in OPTION_NOUNS | ENTRIES:
        return False
    lengths = {len(value) for value in values}
    return len(lengths) == 1 and 0 < lengths.pop() <= _MOST_ENTRIES


def column_type(values: Sequence[Any]) -> str | None:
    """The type to declare for a column: a conversation, or a list of texts; None for any other."""
    seen = [value for value in values if value is not None]
    if not seen:
        return None
    null = "?" if len(seen) < len(values) else ""
    if all(map(looks_like_conversation, seen)):
        return f"conversation{null}"
    is_texts = all(isinstance(value, list) and all(isinstance(text, str) for text in value) for value in seen)
    return f"list[str]{null}" if is_texts else None


_MOST_WORDS = 4
"""Words of the longest text that can be a label."""


def name_words(name: str) -> list[str]:
    """The words and numbers of a column's name, in small letters: `model`, `response`, `2` of `modelResponse_2`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.rpartition(".")[2])
    return [word.lower() for word in re.findall(r"[^\W\d_]+|\d+", spaced)]


_KNOWN = CONTENT | LABEL_NOUNS | JUDGED_BY


def head_noun(name: str) -> str:
    """The noun of a column's name: `response` of `modelResponse_2`, `claim` of `claim_text`."""
    if name.lower() in _KNOWN:
        return name.lower()
    words = name_words(name)
    while len(words) > 1 and (len(words[-1]) == 1 or words[-1].isdigit()):
        words.pop()
    if words and words[-1] in GENERIC:
        before = words[-2] if len(words) > 1 else head_noun(name.rpartition(".")[0]) if "." in name else ""
        return before if before in _KNOWN else words[-1]
    return words[-1] if words else ""


def word_count(text: str) -> int:
    """The words of a text, in scripts without spaces too."""
    return len(text.split()) + len(_UNSPACED.findall(text))


_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{4}")
"""Thai, Lao, and the characters of Chinese and Japanese: some four of them are a word more."""


def label_likeness(name: str, values: Sequence[Any]) -> int:
    """How likely the column has human labels: 0 (not at all) to 3, by its name and its values."""
    seen = given_labels(values)
    if not seen or not all(isinstance(value, str | int | float) for value in seen):
        return 0
    if len(seen) > 3 and len(set(map(str, seen))) == 1:
        return 0  # a column of one value tells no row from another
    head, words = head_noun(name), label_words(seen)
    if head in ANNOTATORS and proposed_scale(seen) is not None:
        return 2  # what a rater said, not who it was
    if head in ANSWERS and all(isinstance(value, bool) for value in seen):
        return 1  # the right answer of a question that is answered by yes or no
    if any(word_count(word) > _MOST_WORDS for word in words) or head in CONTENT:
        return 0
    tokens = set(name_words(name))
    if _PASS_AT.match(name) or (_ASSERTION.match(name) and (scale := proposed_scale(seen)) and scale.kind == "boolean"):
        return 2
    if head in META:
        scale = proposed_scale(seen)
        if head == "feedback" and scale is not None and is_judgement(words, scale):
            return 2
        return 2 if tokens & PREFERENCES and len(words) <= _MOST_WORDS else 0
    if ANNOTATORS & tokens and head not in LABEL_NOUNS:
        return 0
    if head in LABEL_NOUNS or _LABEL_NAME.match(name):
        return 3 if head in BEST_LABELS or "human" in name.lower() else 2
    # Words of no known meaning are rather a category of the row, such as a topic, than what people said of it.
    scale = proposed_scale(seen)
    if all(map(numeric, seen)):
        quality = head.endswith(QUALITIES) and head not in NO_QUALITIES
        return int(
            quality and scale is not None and not (scale.kind == "range" and float(scale.values[1]) > _MOST_LEVELS)
        )
    return int(scale is not None and scale.kind != "continuous" and is_judgement(words, scale))


# `is_correct` and `isCorrect`, but neither `issue` nor `ISBN`; 是否正确.
_LABEL_NAME = re.compile(r"(?i:is|was|has)[_ -][A-Za-z]+$|([Ii]s|[Ww]as|[Hh]as)[A-Z][A-Za-z]*$|是否")
_PASS_AT = re.compile(r"(?i:pass)[_@ -](at[_ ])?\d+$")
# A name that says something of the row, as `contains_pii` does.
_ASSERTION = re.compile(
    r"(?i:answers|contains|does|did|follows|includes|mentions|needs|requires|should|uses|violates)[_ -]\w+$"
)
_MOST_LEVELS = 10
"""Of a quality without another sign that it is a rating."""


def is_judgement(words: Sequence[str], scale: LabelScale) -> bool:
    """Whether the words say how good something is: yes and no, words of a known order, or a word and its negation."""
    negated = len(words) == 2 and any(first.lower().endswith(second.lower()) for first, second in permutations(words))
    return scale.kind == "boolean" or meaning_order(words) is not None or negated


def suggested_columns(samples: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns that a judge probably reads: conversations, lists of texts, rubrics and texts, but no labels, no ids and nothing
    that an annotator wrote. ``samples`` has the columns within columns too."""
    kinds = {name: column_type(values) or "" for name, values in samples.items()}
    talks = [name for name, kind in kinds.items() if kind.startswith("conversation")]
    named = [
        name
        for name, values in samples.items()
        if name in talks
        or (head_noun(name) in RUBRICS and entry_key(values))
        or _is_list(name, values)
        or _are_records(name, values)
    ]
    if talks:
        beside = [name for name in samples if name in named or _is_beside(name, samples, talks)]
        return _without_comments(beside)
    read = [name for name, values in samples.items() if name in named or _is_read(name, values)]
    known = [name for name in read if name in named or head_noun(name) in CONTENT or not _are_words(samples[name])]
    known = [name for name in known if head_noun(name) in CONTENT - ABOUT or not _are_categories(samples[name])]
    return _without_comments(known or read)  # a column of single words beside one of texts is probably a label


def _are_records(name: str, values: Sequence[Any]) -> bool:
    """Whether the column has lists of mappings with texts, such as documents or turns in a form of their own."""
    entries = [entry for value in values if isinstance(value, list) for entry in value]
    is_read = head_noun(name) in CONTENT - RUBRICS - OPTION_NOUNS and all(isinstance(value, list) for value in values)
    texts = [
        text for entry in entries if isinstance(entry, Mapping) for text in entry.values() if isinstance(text, str)
    ]
    return (
        is_read
        and all(isinstance(entry, Mapping) for entry in entries)
        and any(word_count(text) > _MOST_WORDS for text in texts)
    )


def _is_list(name: str, values: Sequence[Any]) -> bool:
    """Whether the column has lists of texts that a judge reads, and not tags."""
    if not (column_type(values) or "").startswith("list[") or head_noun(name) in META:
        return False
    texts = [text for value in values for text in value or ()]
    return head_noun(name) in CONTENT or any(word_count(text) > _MOST_WORDS for text in texts)


def _is_beside(name: str, samples: Mapping[str, Sequence[Any]], talks: Sequence[str]) -> bool:
    """Whether the column has texts, such as a task or a response, that the row's conversation does not have already."""
    if head_noun(name) not in CONTENT or not _is_read(name, samples[name]):
        return False
    told = [json.dumps([samples[talk][row] for talk in talks], default=str) for row in range(len(samples[name]))]
    return any(value and json.dumps(value)[1:-1] not in text for value, text in zip(samples[name], told, strict=True))


def _without_comments(names: list[str]) -> list[str]:
    """The names; beside an answer, comments are those of its readers, and reveal the label."""
    is_answered = any(map(is_answer, names))
    return [name for name in names if not is_answered or head_noun(name) not in ("comment", "comments")]


def is_answer(name: str) -> bool:
    """Whether the column's name is that of an answer or the like."""
    return head_noun(name) in ANSWERS


def judged_column(columns: Sequence[str]) -> str:
    """Of the columns that a judge reads the one with what is judged, rather than with what that answers or follows from."""
    references = [
        name
        for name in columns
        if not REFERENCES.isdisjoint(name_words(name)) or head_noun(name.partition(".")[0]) in TESTS
    ]
    own = [name for name in columns if name not in references]
    answers = [*filter(is_answer, own)]
    others = [name for name in own if head_noun(name) not in JUDGED_BY]
    return (answers or others or [*filter(is_answer, references)][:1] or list(columns))[-1]


def any_text(samples: Mapping[str, Sequence[Any]]) -> list[str]:
    """Where no column looks like what is judged: those of texts, else the first one, but neither labels nor links."""
    texts = [
        name
        for name, values in samples.items()
        if (seen := given_labels(values)) and all(isinstance(value, str) for value in seen) and not _are_links(seen)
    ]
    others = [name for name in samples if "." not in name and given_labels(samples[name])]
    free = [
        name
        for name in texts or others
        if not label_likeness(name, samples[name]) and head_noun(name) not in META and not _are_codes(samples[name])
    ]
    return free or (texts or others)[:1]


def _are_links(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and re.match(r"(https?|file|s3|data):", value) for value in values)


def _are_words(values: Sequence[Any]) -> bool:
    return all(word_count(value) == 1 for value in given_labels(values))


def _are_categories(values: Sequence[Any]) -> bool:
    """Whether a few short texts are repeated, as a row's category is."""
    seen = given_labels(values)
    short = all(isinstance(value, str) and word_count(value) <= _MOST_WORDS for value in seen)
    return short and 2 * len(set(seen)) <= len(seen) and len(set(seen)) <= MAX_CATEGORIES


def _is_read(name: str, values: Sequence[Any]) -> bool:
    seen = given_labels(values)
    if not seen or not all(isinstance(value, str) for value in seen) or label_likeness(name, values):
        return False
    if _are_links(seen) or _are_codes(values):
        return False
    if head_noun(name) in CONTENT:
        return True
    short = all(word_count(value) <= _MOST_WORDS for value in seen)
    about = head_noun(name) in META or not ANNOTATORS.isdisjoint(name_words(name))
    return not about and not (short and (head_noun(name) in LABEL_NOUNS or all(map(_ID.fullmatch, seen))))


_ID = re.compile(r"\S*\d\S*")
_CODE = re.compile(r"[A-Za-z]{0,6}[-_#]?\d[\w-]*")


def _are_codes(values: Sequence[Any]) -> bool:
    """Whether the values are codes such as `T-1001`, another one in each row."""
    seen = given_labels(values)
    codes = all(isinstance(value, str) and _CODE.fullmatch(value) for value in seen)
    return codes and len(seen) == len(values) > 1 and len(set(seen)) == len(seen)


def identifier(samples: Mapping[str, Sequence[Any]]) -> str | None:
    """The column that identifies each row: `id` or the like, without duplicates, else one within a column."""
    for name in sorted(samples, key=lambda name: "." in name):
        values = samples[name]
        last = (name_words(name) or [""])[-1]
        keyed = last in ("id", "key", "uid", "uuid") and all(type(value) in (str, int) for value in values)
        keyed = keyed or (head_noun(name) in ROW_NAMES and _are_codes(values))
        if keyed and len({str(value) for value in values}) == len(values):
            return name
    return None


def choice_columns(samples: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Three or more columns of texts that differ in nothing but a running number or letter: `ans0`, `ans1`, `ans2`."""
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name, values in samples.items():
        seen = given_labels(values)
        match = re.fullmatch(r"(.*?)[ _.-]?(\d+|[A-Ha-h])", name)
        if match and seen and all(isinstance(value, str) for value in seen):
            mark = match[2]
            number = int(mark) if mark.isdigit() else ord(mark.lower()) - ord("a")
            groups.setdefault((match[1], "number" if mark.isdigit() else "letter"), []).append((number, name))
    for columns in groups.values():
        columns.sort()
        numbers = [number for number, _ in columns]
        least = 2 if head_noun(columns[0][1]) in ALTERNATIVES else 3
        if len(columns) >= least and numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[0] <= 1:
            return tuple(name for _, name in columns)
    return ()


def list_entries(samples: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, int]]:
    """The options of a multiple choice that are a list of one length in each row: `choices[0]` with its column and place."""
    for name, values in samples.items():
        lengths = {len(value) for value in values} if column_type(values) == "list[str]" else set()
        if head_noun(name) in OPTION_NOUNS and len(lengths) == 1 and 2 < (count := lengths.pop()) <= MAX_CATEGORIES:
            return {f"{name}[{index}]": (name, index) for index in range(count)}
    return {}


def option_key(samples: Mapping[str, Sequence[Any]], options: Sequence[str]) -> str | None:
    """The column that says which of these options is right, though its name may be that of an answer."""
    keys = [
        name
        for name, values in samples.items()
        if (
            head_noun(name) in LABEL_NOUNS | ANSWER_KEYS
            or (not PREFERENCES.isdisjoint(name_words(name)) and all(map(numeric, given_labels(values))))
        )
        and name not in options
        and len(set(map(str, given_labels(values)))) > 1
        and option_labels(options, values) is not None
    ]
    return max(keys, key=lambda name: label_likeness(name, samples[name]), default=None)


def option_labels(options: Sequence[str], values: Sequence[Any]) -> dict[Any, str] | None:
    """Label -> the letter of the option that it names by its number, letter, or column; None for other labels."""
    letters = [chr(ord("A") + index) for index in range(len(options))]
    seen = given_labels(values)
    if not options or not all(isinstance(label, str | int | float) for label in seen):
        return None
    labels = [label for label in dict.fromkeys(seen) if not isinstance(label, bool)]
    texts = [str(label).removesuffix(".0").strip() for label in labels]
    count = len(options)
    for names in (
        [str(number) for number in range(count)],
        [str(number) for number in range(1, count + 1)],
        letters,
        [letter.lower() for letter in letters],
        list(options),
    ):
        if texts and set(texts) <= set(names):
            return {label: letters[names.index(text)] for label, text in zip(labels, texts, strict=True)}
    return None


def entry_key(values: Sequence[Any]) -> str | None:
    """The key with the text of each entry, if the column is a list of criteria that are mappings; else None."""
    entries = [entry for value in values if isinstance(value, list) for entry in value]
    lists = all(isinstance(value, list) for value in values)
    if not entries or not lists or not all(isinstance(entry, Mapping) and "role" not in entry for entry in entries):
        return None
    return next(
        (key for key in ENTRY_TEXTS if all(isinstance(entry.get(key), str) and entry[key] for entry in entries)), None
    )


def rubric_column(samples: Mapping[str, Sequence[Any]]) -> str | None:
    """The column with a list of criteria for each row; None where there is none."""
    for name, values in samples.items():
        if head_noun(name) in RUBRICS and (column_type(values) == "list[str]" or entry_key(values)) and all(values):
            return name
    return None


def compared_scores(samples: Mapping[str, Sequence[Any]], scale: LabelScale) -> list[tuple[str, list[str]]]:
    """Evaluations that compare the judge with the scores of another tool, which every row has: a name and its lines.

    Scores that the scale cannot be compared with are left out.
    """
    comparisons: list[tuple[str, list[str]]] = []
    for path, values in nested_columns({SCORES: samples.get(SCORES, ())}).values():
        keys = [str(key) for key in path]
        named = len(keys) > 1 and all(map(_PLAIN_KEY.fullmatch, keys)) and "".join(keys).isprintable()
        lines = _comparison(column_slot(path)[1:-1], values, scale) if named and None not in values else None
        if lines is not None:
            comparisons.append(
                (f"their_{'_'.join(re.findall(r'[a-z0-9]+', '_'.join(keys[1:]).lower())) or len(comparisons)}", lines)
            )
    return list(dict(reversed(comparisons)).items())[::-1][:_MOST_SCORES]


def _comparison(path: str, values: Sequence[Any], scale: LabelScale) -> list[str] | None:
    is_boolean = scale.kind == "boolean"
    if all(isinstance(value, bool) for value in values):
        return ["prediction: output.score", _target(path)] if is_boolean else None
    if all(isinstance(value, str) for value in values):  # Inspect writes C for correct and I for incorrect
        known = is_boolean and set(values) <= {"C", "I"}
        return ["prediction: output.score", _target(f"{path} == 'C'")] if known else None
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    if is_boolean and set(values) <= {0, 1}:
        return ["prediction: output.score", _target(f"{path} == 1")]
    if is_boolean:
        return ["prediction: 1.0 if output.score else 0.0", _target(path), "kind: numeric", "metrics: [mae, spearman]"]
    is_number = scale.kind in ("range", "continuous")
    return ["prediction: output.score", _target(path), "kind: numeric", "metrics: [spearman]"] if is_number else None


def _target(expression: str) -> str:
    quoted = re.fullmatch(r"[\w.]+", expression, re.ASCII) is None
    return f"target: {json.dumps(expression, ensure_ascii=False) if quoted else expression}"


def column_slot(path: Sequence[str | int]) -> str:
    """The placeholder of a column, or of an entry of its list."""
    slot = "source"
    for key in path:
        if isinstance(key, int):
            slot += f"[{key}]"
            continue
        quote = '"' if "'" in key else "'"
        slot += f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) else f"[{quote}{key}{quote}]"
    return f"{{{slot}}}"
