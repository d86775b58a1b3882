"""`--set PATH=VALUE`: a document is changed, or the setting is refused as a usage error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.overrides import (
    apply_override,
    override_model,
    replace_model,
)

DOCUMENT = parse_document(b"name: x\nsteps:\n  - {layer: [{scale: likert}], repeat: 2}\n", "p.yaml")


def test_values_are_yaml_and_later_settings_win():
    data = apply_override(
        DOCUMENT,
        [
            "steps[0].repeat=5",
            "steps[-1].layer[0].scale={values: [no, yes]}",
            "name=a",
            "name='b=c'",
        ],
    ).data
    assert data == {
        "name": "b=c",
        "steps": [{"layer": [{"scale": {"values": ["no", "yes"]}}], "repeat": 5}],
    }


def test_the_document_itself_stays_as_it_is():
    apply_override(DOCUMENT, ["steps[0].repeat=5"])
    assert DOCUMENT.data["steps"][0]["repeat"] == 2


def test_a_missing_mapping_is_created():
    assert apply_override(DOCUMENT, ["dataset.columns.a=b"]).data["dataset"] == {
        "columns": {"a": "b"}
    }


def test_what_was_set_has_the_place_of_its_nearest_ancestor():
    place = apply_override(DOCUMENT, ["steps[0].outer=x"]).value_at(("steps", 0, "outer"))
    assert (place.line, place.column) == (3, 5)


def test_a_problem_of_a_value_that_was_set_is_at_its_option_and_of_its_neighbour_in_the_file():
    document = apply_override(DOCUMENT, ["steps[-1].layer[0].scale={values: [a, a]}"])
    problem = document.problem("x", "wrong", "", ("steps", 0, "layer", 0, "scale", "values", 1))
    assert str(problem) == "--set: steps[0].layer[0].scale.values[1]: wrong"
    assert document.problem("x", "wrong", "", ("steps", 0, "repeat")).file == "p.yaml"


@pytest.mark.parametrize(
    ("written", "key", "file"),
    [
        ("model: a", "model", "--model"),
        ("model: {name: a, retries: -1}", "model.name", "--model"),
        ("model: {name: a, retries: -1}", "model.retries", "p.yaml"),
    ],
)
def test_a_problem_of_the_model_of_the_command_line_is_at_model(written, key, file):
    document = override_model(parse_document(written.encode(), "p.yaml"), "b")
    assert document.problem("x", "wrong", "", tuple(key.split("."))).file == file


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("name", "PATH=VALUE"),
        ("=x", "PATH=VALUE"),
        ("a..b=1", "is not a path"),
        ("steps[x]=1", "is not a path"),
        ("steps[99999999999999999999]=1", "is not a path"),
        ("steps[1].a=1", "there is no 1"),
        ("steps[-2]=1", "there is no -2"),
        ("name.x=1", "there is no 'x'"),
        ("name.x.y=1", "there is no 'x'"),
        ("[0]=1", "there is no 0"),
        ("name=[1", "not YAML"),
        ("name=a\nother: b", "not YAML"),
        ("name=\ud800", "not YAML"),
    ],
)
def test_a_setting_that_leads_nowhere_is_refused(setting, words):
    with pytest.raises(UsageError) as caught:
        apply_override(DOCUMENT, [setting])
    assert words in caught.value.message and caught.value.hint


@settings(deadline=None)
@given(st.text(st.sampled_from("abname.steps[0]-1=:{}x\n\"' ")) | st.text(max_size=10))
def test_any_setting_is_applied_or_refused(setting):
    try:
        apply_override(DOCUMENT, [setting])
    except UsageError as error:
        assert error.message.startswith("--set")


@pytest.mark.parametrize(
    ("file", "model"),
    [
        (
            "model: {name: a, temperature: 0.25, retries: 7, params: {top_k: 3}}",
            "temperature retries params",
        ),
        ("model: [{name: a, temperature: 0}, b]", "temperature"),
        ("model: strong\nmodels: {strong: {name: a, timeout: 9}}", "timeout"),
        ("model: strong\nmodels: {strong: [{name: a, timeout: 9}, b]}", "timeout"),
        ("model: a", ""),
        ("name: x", ""),
    ],
    ids=["mapping", "list", "named", "named-list", "name", "none"],
)
def test_a_models_name_is_replaced_and_its_other_keys_are_preserved(file, model):
    replaced = replace_model(parse_document(file.encode(), "p.yaml").data, "b")
    assert (
        replaced == "b"
        if not model
        else (replaced["name"] == "b" and list(replaced) == ["name", *model.split()])
    )


def test_a_name_from_models_is_that_model():
    data = parse_document(b"model: {name: a, seed: 1}\nmodels: {small: {name: b}}", "p.yaml").data
    assert replace_model(data, "small") == "small"


@pytest.mark.parametrize(
    "file",
    [
        "model: a",
        "model: {name: a}",
        "model: m\nmodels: {m: {name: a}}",
        "model: m\nmodels: {m: [a]}",
    ],
)
def test_a_setting_of_a_model_that_is_only_named_is_set(file):
    document = apply_override(parse_document(file.encode(), "p.yaml"), ["model.temperature=0"])
    assert document.data["model"] == {"name": "a", "temperature": 0}
