"""How people write numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from verdict_cli.language.scales.written_number import (
    find_numbers,
    mask_mentions,
    read_number,
    strip_markup,
)


def answers(text: str, ends: tuple[float, float] | None) -> list[Decimal | None]:
    plain = mask_mentions(strip_markup(text), ends)
    return [number.value for number in find_numbers(plain, ends)]


@pytest.mark.parametrize(
    ("text", "ends", "value"),
    [
        ("Score: 8/10", (1, 10), "8"),
        ("**8**/10", (1, 10), "8"),
        ("_8_/10", (1, 10), "8"),
        ("8 out of 10", (1, 10), "8"),
        ("8 (out of 10)", (1, 10), "8"),
        ("8 points out of a possible 10", (1, 10), "8"),
        ("8 of 10", (1, 10), "8"),
        ("8 von 10", (1, 10), "8"),
        ("\\frac{8}{10}", (1, 10), "8"),
        ("1/2", (0, 1), "0.5"),
        (".5/1", (0, 1), "0.5"),
        ("85%", (0, 1), "0.85"),
        ("0.85%", (0, 1), "0.0085"),
        ("85 percent", (0, 100), "85"),
        ("50\\%", (0, 1), "0.5"),
        ("0,5", (0, 1), "0.5"),
        ("0٫5", (0, 1), "0.5"),
        ("0·5", (0, 1), "0.5"),
        ("８", (1, 10), "8"),
        ("1,234,567", None, "1234567"),
        ("−1", (-2, 2), "-1"),
        ("–1", (-2, 2), "-1"),
        ("—1", (-2, 2), "-1"),
        ("－1", (-2, 2), "-1"),
        ("minus 2", (-2, 2), "-2"),
        ("-2 to 2: -1", (-2, 2), "-1"),
        ("Score - 8", (1, 10), "8"),
        ("score-5", (1, 5), "5"),
        ("On a 1-10 scale: 8", (1, 10), "8"),
        ("From 1 to 10 I give 8", (1, 10), "8"),
        ("[1, 10] 8", (1, 10), "8"),
        ("[1,10] 8", (1, 10), "8"),
        ("Out of 10, I give 8", (1, 10), "8"),
        ("10-point scale: 8", (1, 10), "8"),
        ("1 (worst) to 10 (best): 8", (1, 10), "8"),
        ("1 = poor, 5 = excellent. 4", (1, 5), "4"),
        ("4 (5 is best)", (1, 5), "4"),
        ("8 (max. 10)", (1, 10), "8"),
    ],
)
def test_a_number_has_its_intended_value(text, ends, value):
    assert answers(text, ends) == [Decimal(value)]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("8/10", (1, 5)),
        ("8/10", None),
        ("10 out of 10", (1, 5)),
        ("50%", (1, 5)),
        ("50%", None),
        ("1,234", None),
        ("1.234,5", None),
        ("1'234", None),
        ("1 234", None),
        ("2024-05-06", None),
        ("7-8", (1, 10)),
        ("7 or 8", (1, 10)),
        ("7 to 8", (1, 10)),
        ("3½", (0, 5)),
        ("1.2.3", None),
        ("3:1", None),
        ("≥4", (1, 5)),
        ("Score: − 1", (-2, 2)),
        ("Score - 1", (-2, 2)),
    ],
)
def test_a_number_that_is_not_clear_has_no_value(text, ends):
    values = answers(text, ends)
    assert values and values[0] is None


@pytest.mark.parametrize("text", ["8", "8/10", "8 out of 10"])
def test_a_whole_text_is_one_number(text):
    assert read_number(text, (1, 10)) == 8
    assert read_number(f"{text}!", (1, 10)) is None
