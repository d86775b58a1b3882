"""What is said of each part of the language."""

from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.reference import SCALES, entries, shared_keys
from verdict_cli.language.units import TYPES


def test_every_unit_scale_and_extractor_has_a_text_and_an_example():
    parts = entries()
    for name in (*TYPES, *SCALES, *EXTRACTORS):
        assert parts[name].text
        assert parts[name].example is not None, f"configs/examples/{name}.yaml is missing"


def test_every_key_says_what_it_is_for():
    silent = [
        (part.name, key.name) for part in entries().values() for key in part.keys if not key.text
    ]
    assert silent == []


def test_a_units_own_keys_are_those_that_not_every_unit_has():
    assert [key.name for key in entries()["DebateUnit"].own()] == ["role_name", "number", "stance"]
    assert {key.name for key in shared_keys(asking=False)} < {
        key.name for key in shared_keys(asking=True)
    }


def test_a_key_s_value_default_and_need_are_those_of_the_schema():
    assert {key.name: key for key in entries()["CustomType"].keys}["base"].required
    keys = {key.name: key for key in entries()["regex"].keys}
    assert (keys["fields"].required, keys["fields"].kind) == (False, "names, each with text")
    assert (keys["match"].required, keys["match"].default) == (False, "first")
