"""Finding S23: a text of brackets is stripped of Markdown in bounded time."""

from time import process_time

import pytest

from verdict_cli.features.audit.probes import _MARKDOWN


@pytest.mark.parametrize(
    "text", ["[" * 20_000, "![" * 20_000, "**" * 20_000, "# " + "#" * 40_000 + "x"]
)
def test_s23_a_text_of_brackets_is_stripped_of_markdown_at_once(text):
    start = process_time()
    for pattern, replacement in _MARKDOWN:
        text = pattern.sub(replacement, text)
    assert process_time() - start < 2  # it took 15 s
