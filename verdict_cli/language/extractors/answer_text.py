"""What of a reply is thought and what is answer, and which of its characters nobody sees.

Reasoning models behind a server without a reasoning parser write their thoughts into the reply, between marks that differ
from model to model. A score in the thoughts is a draft. This is the one place that knows these marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import NamedTuple

from verdict_cli.errors import ReplyError
from verdict_cli.regex import regex

_NAMES = (
    r"(?:ant|seed:)?think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis|deliberation|chain_of_thought|cot|"
    r"(?:inner|internal)_?(?:monologue|thoughts?)"
)
_MARK = regex(
    r"(?P<bracket><\|?)\s*(?P<end>/\s*|end_(?:of_)?)?(?:begin_of_|start_)?"
    rf"(?P<name>{_NAMES}|details(?=\s+type=.?reasoning)|(?<=/)details)(?P<last>_end)?(?:_start)?(?:\s[^<>\n]{{0,200}})?\|?>"
    r"|(?P<square>[\[◁])\s*(?P<stop>/\s*)?think(?:ing)?\s*[\]▷]"
    r"|<\|inner_(?:prefix|(?P<suffix>suffix))\|>|<unused9(?:4|(?P<five>5))>|<(?:\|channel>thought|(?P<channel>channel\|>))",
    re.IGNORECASE,
)
_MAY_BE_MARK = regex(r"[<\[◁]")
_HARMONY = regex(
    r"\A\s*(?:<\|start\|>\s*assistant\s*)?(?:<\|channel\|>|(?:analysis|commentary)\s*<\|message\|>)"
    r"|<\|start\|>\s*assistant\s*<\|channel\|>",
    re.IGNORECASE,
)
_FINAL = regex(r"<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>", re.IGNORECASE)
_BARE_HARMONY = regex(r"\A\s*(?:analysis|commentary).*assistant\s*final", re.DOTALL)
"""Harmony's channels where the server has dropped the special tokens: `analysisPerhaps 2.assistantfinal4`."""
_GRANITE = regex(
    r"\A\s*Here is my thought process:.*?Here is my response:", re.DOTALL | re.IGNORECASE
)
_QUOTES = frozenset("`'\"“”‘’")
_END_OF_TURN = (
    r"<[|｜](?![^|｜]*(?:think|thought|reason|inner))[^<>|｜\n]{1,40}[|｜]>|</?s>|<(?:eos|bos|eot|pad|end_of_turn|end_of_text|end_of_utterance|turn\||start_of_turn)>"
    r"|\[/?INST\]|\[EOS\]"
)
_MARKS_BEFORE = regex(
    rf"\A\s*(?:(?:{_END_OF_TURN})\s*(?:(?:assistant|model)\b\s*)?)+", re.IGNORECASE
)
_MARKS_AFTER = regex(rf"(?:{_END_OF_TURN})\s*\Z", re.IGNORECASE)


_INVISIBLE = "\ufeff\u200b\u200c\u200d\u200e\u200f\u2060\u00ad\u061c"
_FIRST, _LAST = "<[" + _INVISIBLE, ">]" + _INVISIBLE


class Split(NamedTuple):
    """The answer of a reply. ``thoughts``: whether something else was taken off; ``doubt``: a mark that may end thoughts, or
    may be quoted, "" where there is none."""

    answer: str
    thoughts: bool = False
    doubt: str = ""


def split_thoughts(text: str, kept_tags: Collection[str] = (), *, inline: bool = True) -> Split:
    """The reply without its thoughts: blocks between marks, what comes before a closing mark that ends its line and has no
    opening (the chat template wrote that), and all of Harmony's channels but the final one.

    Tags whose names are among ``kept_tags`` are the author's own. A mark between quotes is a quotation. Without ``inline`` only blocks
    that begin a line count, so that no text within a JSON string does.

    Raises:
        ReplyError: the reply ends within its thoughts, or nothing follows them.
    """
    if "<|" in text and _HARMONY.search(text):
        return _final_channel(text)
    stated = _BARE_HARMONY.match(text) or _GRANITE.match(text)
    if stated:
        return _checked(Split(text[stated.end() :], thoughts=True))
    text = strip_marks(text)
    if not _MAY_BE_MARK.search(text):
        return Split(text)
    marks = [
        mark
        for mark in _MARK.finditer(text)
        if not _is_quoted(text, mark) and (mark["name"] or "").lower() not in kept_tags
    ]
    return _checked(_without_blocks(text, marks, inline=inline))


def _without_blocks(text: str, marks: Iterable[re.Match[str]], *, inline: bool) -> Split:
    """The text without its blocks, each from an opening to a closing mark of one style."""
    answer, end, doubt = "", 0, ""
    opened: re.Match[str] | None = None
    for mark in marks:
        if opened is None and not _closes(mark):
            opened = mark if inline or _begins_line(text, mark) else None
        elif opened is not None and _closes(mark) and _style(mark) == _style(opened):
            answer, end, opened = answer + text[end : opened.start()], mark.end(), None
        elif (
            opened is None
            and not end
            and _ends_line(text, mark)
            and not text.lstrip().startswith(("{", "```"))
        ):
            end = mark.end()
        elif opened is None:
            doubt = mark[0]
    if opened is not None and _begins_line(text, opened):
        raise ReplyError(f"the reply ends within its reasoning: {text[opened.start() :][:100]!r}")
    return Split(answer + text[end:], thoughts=end > 0, doubt=doubt)


def _checked(split: Split) -> Split:
    if not split.thoughts:
        return split
    answer = strip_marks(split.answer)
    if not answer.strip():
        raise ReplyError("the reply is only its reasoning, and no answer follows it")
    return split._replace(answer=answer)


def _final_channel(text: str) -> Split:
    finals = list(_FINAL.finditer(text))
    if not finals:
        raise ReplyError("the reply ends within its reasoning: it has no final channel")
    answer = re.split(r"<\|(?:end|return|start)\|>", text[finals[-1].end() :], maxsplit=1)[0]
    return _checked(Split(answer, thoughts=True))


def _closes(mark: re.Match[str]) -> bool:
    return any(mark[name] for name in ("end", "last", "stop", "suffix", "five", "channel"))


def _style(mark: re.Match[str]) -> tuple[str, str]:
    return mark["bracket"] or mark["square"] or "", (mark["name"] or "").lower()


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    return (
        text[mark.start() - 1 : mark.start()] in _QUOTES
        and text[mark.end() : mark.end() + 1] in _QUOTES
    )


def _begins_line(text: str, mark: re.Match[str]) -> bool:
    return not text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip()


def _ends_line(text: str, mark: re.Match[str]) -> bool:
    return not text[mark.end() :].partition("\n")[0].strip()


_TAG = regex(rf"<\s*({_NAMES})\s*>", re.IGNORECASE)
_AROUND_A_VALUE = regex(
    rf"<\s*({_NAMES})\s*>[^<>{{]*\{{[^<>]*\}}[^<>}}]*<\s*/\s*\1\s*>", re.IGNORECASE
)


def requested_tags(prompt: str) -> frozenset[str]:
    """The names of thoughts' tags that a prompt's text asks for. Tags around a placeholder only mark what is in it."""
    return frozenset(name.lower() for name in _TAG.findall(_AROUND_A_VALUE.sub("", prompt)))


_SURROGATE = regex("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for half a surrogate pair, such as half an emoji, which no file and no server takes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class _Unseen(dict[int, int | None]):
    """A table for `str.translate` that drops characters of category Cf (zero-width space, soft hyphen, directions, BOM), and
    those that make an emoji of a digit. Filled as characters are met: Unicode has a million."""

    def __missing__(self, code: int) -> int | None:
        unseen = code in (0xFE0F, 0x20E3) or unicodedata.category(chr(code)) == "Cf"
        return self.setdefault(code, None if unseen else code)


_UNSEEN = _Unseen()


def drop_invisible(text: str) -> str:
    """The text without characters that nobody sees, which could split a word or a number."""
    return text if text.isascii() else text.translate(_UNSEEN)


def strip_marks(text: str) -> str:
    """The text without the end-of-turn marks of chat templates and invisible characters at its ends; the same object where
    it has none."""
    inner = text.strip()
    marked = False
    while inner and (inner[0] in _FIRST or inner[-1] in _LAST):
        answer = _MARKS_AFTER.sub("", _MARKS_BEFORE.sub("", inner)).strip().strip(_INVISIBLE)
        if answer == inner:
            break
        inner, marked = answer, True
    return inner if marked else text
