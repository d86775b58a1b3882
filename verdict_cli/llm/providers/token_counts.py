"""Tokens of a request before it is sent: its texts, JSON schema, tools and images, and the thinking of its reply."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from verdict_cli.llm.providers.price_book import entry_of, litellm_folder
from verdict_cli.messages import Request
from verdict_cli.model import Model
from verdict_cli.regex import regex

LATIN = 4.0
"""Characters a token, in Latin script."""
_OTHER = 2.5
"""In other alphabets: from 1.0 (Hebrew, cl100k) to 3.9 (Russian, o200k)."""
_WIDE = 1.4
"""In scripts without spaces: from 1.0 (Chinese, cl100k) to 2.1 (Thai, o200k)."""
# Compiling a set up to U+10FFFF takes milliseconds; its complement does not.
_NOT_LATIN = regex(r"[^\x00-\u024F]")
_NOT_ALPHABETIC = regex(r"[^\x00-\u2E7F]|[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF]")
A_MESSAGE = 4
"""Tokens around each message: its role and separators."""
AN_IMAGE = 765
"""OpenAI's tokens for an image of 1,024 pixels a side. Other providers take between 258 and some 1,600."""
_TOOL_FRAME = 10
_QUESTION_FRAME = 8
_THINKING = {
    "none": 0,
    "minimal": 0,
    "low": 250,
    "medium": 500,
    "high": 1500,
    "xhigh": 3000,
    "max": 6000,
}
"""Hidden tokens a reply, by the effort."""
_THINKS_UNASKED = regex(
    r"(^|/)(o\d|gpt-5|grok-4|deepseek-r|qwq|magistral)|reasoner|thinking|-r1|gemini-(2\.5|[3-9])"
)
_NAMES_ENCODING = (
    (regex(r"(gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|o\d|chatgpt-|codex-)"), "o200k_base"),
    (regex(r"(gpt-4|gpt-3\.5)"), "cl100k_base"),
)
_FILES = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
"""The vocabularies that litellm ships, by the names that tiktoken looks for."""


def text_counter(name: str, *, real: bool = True) -> tuple[Callable[[str], int], str]:
    """(tokens of a text for the model, the tokenizer's name; "" for a count of characters by script).

    ``real``: use the model's tokenizer where it is available, which is for OpenAI's models. It takes a second to load.
    """
    plain = name.rpartition("/")[2]
    encoding = (
        next((encoding for form, encoding in _NAMES_ENCODING if form.match(plain)), "")
        if real
        else ""
    )
    counter = _tokenizer(encoding) if encoding else None
    return (by_script, "") if counter is None else (counter, encoding)


def by_script(text: str) -> int:
    """Tokens by the number of characters and their script."""
    if text.isascii():
        return round(len(text) / LATIN)
    non_latin = len(_NOT_LATIN.findall(text))
    wide = len(_NOT_ALPHABETIC.findall(text))
    return round((len(text) - non_latin) / LATIN + (non_latin - wide) / _OTHER + wide / _WIDE)


def prompt_tokens(request: Request, tokens_of: Callable[[str], int]) -> int:
    """The request's prompt tokens, with those of its schema or tools and its images."""
    total = sum(tokens_of(message.content) + A_MESSAGE for message in request.messages)
    total += AN_IMAGE * sum(len(message.images) for message in request.messages)
    for question in request.questions:
        total += (
            sum(tokens_of(f"{option.label} {option.description}") for option in question.options)
            + _QUESTION_FRAME
        )
    for schema in (request.json_schema, request.model.params.get("tools")):
        if schema:
            total += tokens_of(_compact(schema)) + _TOOL_FRAME
    return total


def thinking_tokens(model: Model) -> int:
    """The hidden tokens that a reply is assumed to have."""
    sampling = model.sampling()
    effort = sampling.get("reasoning_effort")
    if isinstance(effort, str):
        return _THINKING.get(effort, _THINKING["medium"])
    budget = sampling.get("thinking")
    if isinstance(budget, Mapping) and budget.get("type") != "disabled":
        return _THINKING["medium"]
    name = model.known_name
    entry = entry_of(name) or {}
    default = entry.get("default_reasoning_effort")
    if isinstance(default, str):
        return _THINKING.get(default, _THINKING["medium"])
    thinks = bool(_THINKS_UNASKED.search(name)) and entry.get("supports_reasoning", True)
    return _THINKING["medium"] if thinks and "chat" not in name else 0


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))


@lru_cache(maxsize=4)
def _tokenizer(encoding: str) -> Callable[[str], int] | None:
    """tiktoken's, with the vocabulary in litellm's wheel: without one it would be downloaded."""
    package = litellm_folder()
    folder = None if package is None else package / "litellm_core_utils" / "tokenizers"
    if folder is None or not (folder / _FILES[encoding]).is_file():
        return None
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        import tiktoken

        encode = tiktoken.get_encoding(encoding).encode_ordinary
    except ImportError:
        return None
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    return lambda text: len(encode(text))
