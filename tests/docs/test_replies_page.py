"""The page of what extractors read in the same replies, and that each reads what is meant or refuses."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from paths import ROOT

PAGE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "tools" / "replies_page.py"))


@pytest.mark.parametrize("extractor", PAGE["extractors"]())
def test_every_reply_has_its_intended_value_or_is_refused(extractor):
    bound = PAGE["extractors"]()[extractor]
    for text, stated in PAGE["REPLIES"]:
        score, refusal = PAGE["reading"](bound, text)
        assert score in (*stated, None), text
        assert score is not None or refusal, text


def test_the_page_is_fresh():
    assert (ROOT / "docs" / "reference" / "replies.md").read_text(encoding="utf-8") == PAGE[
        "page"
    ]()
