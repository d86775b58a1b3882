"""Errors planted in texts: one of each kind where it can be, and nothing where it cannot."""

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.audit.probes import degradations

TEXT = (
    "The bridge was opened in 1932 by Prime Minister Jack Lang. It is 503 metres long, and trains can cross it. "
    "Painters have worked on it since then. Its steel weighs 52,800 tonnes."
)
KINDS = {"negation", "number", "entity", "unit", "cut end", "shuffled sentences", "invented quote"}


def test_each_kind_changes_a_text_that_has_what_it_needs_and_only_that():
    rules = degradations(0)
    assert set(rules) == KINDS
    changed = {kind: rule(TEXT) for kind, rule in rules.items()}
    assert all(text != TEXT for text in changed.values())
    words = TEXT.split()
    assert len(changed["negation"].split()) == len(words) + 1
    assert changed["negation"].replace(" not", "") == TEXT
    for kind in ("number", "unit"):
        others = changed[kind].split()
        assert sum(word != other for word, other in zip(words, others, strict=True)) == 1, kind
    assert TEXT.startswith(changed["cut end"])
    assert len(changed["cut end"].split()) < len(words)
    assert sorted(changed["shuffled sentences"].split()) == sorted(words)
    assert '"' in changed["invented quote"]
    assert "Prime Minister Jack Lang" not in changed["entity"]


def test_a_negation_is_removed_where_there_is_one():
    assert degradations(0)["negation"]("Cats are not dogs.") == "Cats are dogs."
    assert degradations(0)["negation"]("It doesn't matter.") == "It does matter."


def test_a_text_without_what_an_error_needs_stays_as_it_is():
    rules = degradations(0)
    plain = "A short answer"
    assert {kind for kind, rule in rules.items() if rule(plain) == plain} == KINDS - {
        "invented quote"
    }
    assert all(rule("") == "" for rule in rules.values())


def test_the_seed_decides_where_errors_are():
    drawn = {tuple(rule(TEXT) for rule in degradations(seed).values()) for seed in range(8)}
    assert len(drawn) > 1
    assert [rule(TEXT) for rule in degradations(3).values()] == [
        rule(TEXT) for rule in degradations(3).values()
    ]


@given(st.text(max_size=300))
def test_any_text_can_be_degraded(text):
    for rule in degradations(1).values():
        assert isinstance(rule(text), str)
