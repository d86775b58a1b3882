"""The base class of everything that a pipeline file contains."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from verdict_cli.config_model import ConfigModel
from verdict_cli.errors import UsageError


class Part(ConfigModel):
    items: tuple[str, ...]
    pairs: dict[str, Annotated[tuple[tuple[float, ...], ...], Field(min_length=1)]] | None = None


def test_a_plain_tuple_field_takes_a_list_at_any_depth():
    part = Part.model_validate({"items": ["a"], "pairs": {"x": [[1, 2.5]]}})
    assert part.items == ("a",)
    assert part.pairs == {"x": ((1.0, 2.5),)}


@pytest.mark.parametrize(
    "keys",
    [{"items": "ab"}, {"items": {"a": 1}}, {"items": ["a"], "pairs": {"x": []}}, {"items": [1]}],
)
def test_other_values_for_a_tuple_are_rejected(keys):
    with pytest.raises(ValidationError):
        Part.model_validate(keys)


def test_a_wrong_key_in_python_is_a_usage_error_with_the_nearest_key():
    with pytest.raises(UsageError, match="Part takes no `itmes`") as caught:
        Part(itmes=["a"])  # type: ignore[call-arg]
    assert caught.value.hint == "did you mean `items`?"
    with pytest.raises(UsageError, match="Part: items: Field required"):
        Part()  # type: ignore[call-arg]


def test_a_part_is_immutable():
    with pytest.raises(UsageError, match="'items' cannot be set: Part is immutable"):
        Part(items=("a",)).items = ()
