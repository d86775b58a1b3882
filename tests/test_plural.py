"""Numbers with their nouns."""

import pytest

from verdict_cli.plural import plural


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "row", "1 row"),
        (0, "row", "0 rows"),
        (1200, "row", "1,200 rows"),
        (1, "reply|replies", "1 reply"),
        (2, "row has|rows have", "2 rows have"),
    ],
)
def test_a_noun_fits_its_number(count, noun, text):
    assert plural(count, noun) == text
