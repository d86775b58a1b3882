"""Baseline models, not LLM judges: `baseline/lexical`, `baseline/random`, `baseline/echo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from hashlib import blake2b
from random import Random

from msgspec import Struct

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import BASELINE_PREFIX
from verdict_cli.llm.providers import TokenCallback
from verdict_cli.llm.providers.baseline_answers import (
    BaselineAnswer,
    fill,
    nearest_value,
    token,
    token_values,
)
from verdict_cli.messages import Alternative, Reply, Request, Usage
from verdict_cli.model import Model
from verdict_cli.regex import regex

_WORD = regex(r"[^\W_]+(?:['’][^\W_]+)*")
_STOP_WORDS = (
    "a an and are as at be been but by can did do does for from had has have he her his how i if in into is it "
    "its me my no not of on or our she so than that the their them then there these they this to was we were "
    "what when where which who why will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())


def content_words(text: str) -> tuple[str, ...]:
    """The distinct words of the text, case-folded, in order, without stop words unless it has only those."""
    words = dict.fromkeys(map(str.casefold, _WORD.findall(text)))
    return tuple([word for word in words if word not in _STOP] or words)


def _text_and_rest(request: Request) -> tuple[str, str]:
    if request.inserted:
        prompt = "\n".join(message.content for message in request.messages)
        text = request.inserted[-1]
        start = _start_of_last(prompt, request.inserted)
        return text, prompt if start < 0 else f"{prompt[:start]} {prompt[start + len(text) :]}"
    users = [
        position for position, message in enumerate(request.messages) if message.role == "user"
    ]
    last = users[-1] if users else len(request.messages) - 1
    texts = (
        message.content for position, message in enumerate(request.messages) if position != last
    )
    return request.messages[last].content, "\n".join(texts)


def _start_of_last(prompt: str, inserted: tuple[str, ...]) -> int:
    """Where the last inserted value starts, -1 if it does not occur. The values are in order, so the search for each starts
    after the one before: a word that also occurs in an earlier value is not mistaken for the last one."""
    start = end = 0
    for value in inserted:
        start = prompt.find(value, end)
        if start < 0:
            return prompt.rfind(inserted[-1])
        end = start + len(value)
    return start


_SHOWN_WORDS = 5


class LexicalAnswer(Struct, frozen=True):
    """``shared`` are the content words of a text, in its order, that also occur around it; ``total`` counts all of them."""

    shared: tuple[str, ...]
    total: int

    def level(self) -> float:
        """The share of the words; 0 for a text without words."""
        return len(self.shared) / self.total if self.total else 0.0

    def position_on(self, count: int) -> float:
        return self.level() * (count - 1)

    def sentence(self) -> str:
        among = ", ".join(self.shared[:_SHOWN_WORDS])
        return (
            f"The answer shares {len(self.shared)} of {self.total} content words with the rest of the "
            f"prompt{f' ({among})' if among else ''}; overlap {self.level():.2f}."
        )

    def remark(self) -> str:
        among = ", ".join([word for word in self.shared if word.isalpha()][:_SHOWN_WORDS])
        return f"Words shared with the rest of the prompt: {among or 'none'}."


class RandomAnswer(Struct, frozen=True):
    """A level sampled for every field, with equal probability for each value of a scale."""

    random: Random

    def level(self) -> float:
        return self.random.random()

    def position_on(self, count: int) -> float:
        return float(self.random.randrange(count))

    def sentence(self) -> str:
        return f"Drawn at random: {self.random.random():.2f}."

    def remark(self) -> str:
        return "Drawn at random."


def lexical_reply(request: Request) -> Reply:
    """The reply of the word-overlap judge: how much of the last inserted value (else of the last user message) occurs in the
    rest of the messages."""
    text, context = _text_and_rest(request)
    words = content_words(text)
    around = set(content_words(context))
    lexical = LexicalAnswer(tuple(word for word in words if word in around), len(words))
    return reply_from(request, lambda: lexical)


def random_reply(request: Request) -> Reply:
    """The reply of the random judge, decided by the seed and the call's name alone."""
    parts = (
        request.seed,
        request.row.draw_id,
        request.written or request.node,
        request.call,
        request.attempt,
    )
    name = "\x1f".join(str(part) for part in parts).encode("utf-8", "surrogatepass")
    seed = int.from_bytes(blake2b(name, digest_size=16).digest())
    return reply_from(request, lambda: RandomAnswer(Random(seed)))


def echo_reply(request: Request) -> Reply:
    """The last user message's content.

    If a JSON object of strings is requested and the content is not one, each field gets the content.
    """
    users = [message.content for message in request.messages if message.role == "user"]
    text = users[-1] if users else ""
    properties = (request.json_schema or {}).get("properties", {})
    strings = all(
        part.get("type") == "string" and "enum" not in part for part in properties.values()
    )
    if properties and strings and not _is_json_object(text):
        text = json.dumps(dict.fromkeys(properties, text), ensure_ascii=False)
    return _reply(request, text)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def reply_from(request: Request, answer: Callable[[], BaselineAnswer]) -> Reply:
    """JSON if there is a schema, one token if only log-probabilities are requested, else a text."""
    support = request.support or (token_values(request.json_schema) if request.top_logprobs else ())
    logprobs = None
    text = ""
    if request.top_logprobs and support:
        position = answer().position_on(len(support))
        text, alternatives = token(support, position, request.top_logprobs)
        logprobs = (alternatives,)
    if request.json_schema is not None:
        text = json.dumps(fill(request.json_schema, answer()), ensure_ascii=False)
    elif logprobs is None:
        text = _text(answer(), support)
    return _reply(request, text, logprobs)


def _text(answer: BaselineAnswer, support: tuple[str, ...]) -> str:
    """Words, then a verdict and a score: a value of the scale if it is known, else a number from 0 to 1."""
    if support:
        position = nearest_value(answer.position_on(len(support)))
        level, score = position / max(1, len(support) - 1), support[position]
    else:
        level = answer.level()
        score = f"{level:.2f}"
    return f"{answer.remark()}\nVERDICT: {'PASS' if level >= 0.5 else 'FAIL'}\nSCORE: {score}"


def _reply(
    request: Request, text: str, logprobs: tuple[tuple[Alternative, ...], ...] | None = None
) -> Reply:
    """A free reply, with words counted as tokens."""
    prompt_tokens = sum(len(message.content.split()) for message in request.messages)
    usage = Usage(prompt_tokens, len(text.split()))
    return Reply(text, logprobs=logprobs, usage=usage, cost_usd=0.0, model=request.model.name)


_BASELINES: dict[str, Callable[[Request], Reply]] = {
    "baseline/lexical": lexical_reply,
    "baseline/random": random_reply,
    "baseline/echo": echo_reply,
}
NAMES = tuple(_BASELINES)


class BaselineProvider:
    """Answers ``baseline/*``."""

    def __init__(self, on_token: TokenCallback | None = None) -> None: ...

    @staticmethod
    def serves(model: Model) -> bool:
        return model.name.startswith(BASELINE_PREFIX)

    @staticmethod
    def check(model: Model) -> str | None:
        if model.name in NAMES:
            return None
        near = get_close_matches(model.name, NAMES, n=1, cutoff=0.8)
        fix = f"did you mean {near[0]}?" if near else f"the built-in models are {', '.join(NAMES)}"
        return f"there is no built-in model {model.name!r}; {fix}"

    async def ask(self, request: Request) -> Reply:
        answer = _BASELINES.get(request.model.name)
        if answer is None:
            raise Refused(str(self.check(request.model)))
        return answer(request)

    async def close(self) -> None:
        return None
