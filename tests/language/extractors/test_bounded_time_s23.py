"""Finding S23: what a reply of one character can make the program do is bounded."""

from time import process_time

import pytest

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.structured import _only_object


@pytest.mark.parametrize(
    "reply", ["{" * 400_000, "{\n" * 40_000, '{"a": ' * 20_000, '{"a"' * 100_000]
)
def test_s23_a_reply_of_braces_is_refused_at_once(reply):
    start = process_time()
    with pytest.raises(ReplyError):
        _only_object(reply)
    assert process_time() - start < 2  # it took 27 s
