"""The options that commands which ask models share."""

from __future__ import annotations

import inspect
from typing import Any

from verdict_cli.cli.model_options import ModelOptions, RowOptions
from verdict_cli.cli.options import AsJson, flatten_options


def _command(first: str, *, how: RowOptions, as_json: AsJson = False) -> tuple[Any, ...]:
    """Says what it got."""
    return first, how, as_json


def test_options_of_a_class_replace_its_parameter():
    names = list(inspect.signature(flatten_options(_command)).parameters)
    assert names[0] == "first"
    assert names[-1] == "as_json"
    assert set(names[1:-1]) == set(RowOptions.__dataclass_fields__)
    assert set(ModelOptions.__dataclass_fields__) < set(names)


def test_a_command_gets_its_options_as_one_value():
    defaults = {name: field.default for name, field in RowOptions.__dataclass_fields__.items()}
    result = flatten_options(_command)(
        first="a", as_json=True, **(defaults | {"seed": 7, "limit": 3})
    )
    assert result == ("a", RowOptions(seed=7, limit=3), True)


def test_a_command_without_such_a_class_keeps_its_options():
    def plain(first: str, second: int = 2) -> tuple[str, int]:
        return first, second

    assert list(inspect.signature(flatten_options(plain)).parameters) == ["first", "second"]
    assert flatten_options(plain)(first="a", second=3) == ("a", 3)
