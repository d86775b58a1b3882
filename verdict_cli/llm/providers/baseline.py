"""Baseline models, not LLM judges: `baseline/lexical`, `baseline/random`, `baseline/echo`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from verdict_cli.errors import Refused
from verdict_cli.llm.providers.baseline_answers import fill, nearest_value, token, token_values
from verdict_cli.messages import Alternative, Reply, Request, Usage

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_STOP_WORDS = (
    "a an and are as at be been but by can did do does for from had has have he her his how i if in into is it "
    "its me my no not of on or our she so than that the their them then there these they this to was we were "
    "what when where which who why will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Overlap:
    """``shared`` are the content words of a text, in its order, that also occur around it; ``total`` counts all of them."""

    shared: tuple[str, ...]
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 for a text without words."""
        return len(self.shared) / self.total if self.total else 0.0


def content_words(text: str) -> tuple[str, ...]:
    """The distinct words of the text, case-folded, in order, without stop words (with them where nothing else is left)."""
    words = tuple(dict.fromkeys(word.casefold() for word in _WORD.findall(text)))
    return tuple(word for word in words if word not in _STOP) or words


def overlap(request: Request) -> Overlap:
    """How much of the last inserted value (else of the last user message) occurs in the rest of the messages."""
    text, rest = _text_and_rest(request)
    words = content_words(text)
    around = set(content_words(rest))
    return Overlap(tuple(word for word in words if word in around), len(words))


def _text_and_rest(request: Request) -> tuple[str, str]:
    if request.inserted:
        prompt = "\n".join(message.content for message in request.messages)
        text = request.inserted[-1]
        at = _place_of_last(prompt, request.inserted)
        return text, prompt if at < 0 else f"{prompt[:at]} {prompt[at + len(text) :]}"
    users = [place for place, message in enumerate(request.messages) if message.role == "user"]
    last = users[-1] if users else len(request.messages) - 1
    others = (message.content for place, message in enumerate(request.messages) if place != last)
    return request.messages[last].content, "\n".join(others)


def _place_of_last(prompt: str, inserted: tuple[str, ...]) -> int:
    """Where the last inserted value starts, -1 if nowhere. The values stand in order, so a word that also
    occurs in an earlier value is not taken for the later one."""
    at = end = 0
    for value in inserted:
        at = prompt.find(value, end)
        if at < 0:
            return prompt.rfind(inserted[-1])
        end = at + len(value)
    return at


_SHOWN_WORDS = 5


@dataclass(frozen=True, slots=True)
class Lexical:
    """A standing that is the share of an answer's content words found around it."""

    found: Overlap

    def level(self) -> float:
        return self.found.share

    def centre(self, count: int) -> float:
        return self.found.share * (count - 1)

    def sentence(self) -> str:
        among = ", ".join(self.found.shared[:_SHOWN_WORDS])
        return (
            f"The answer shares {len(self.found.shared)} of {self.found.total} content words with the rest of the "
            f"prompt{f' ({among})' if among else ''}; overlap {self.found.share:.2f}."
        )

    def remark(self) -> str:
        """The standing in words without any number, so that the first and the last number of a text are its score."""
        among = ", ".join([word for word in self.found.shared if word.isalpha()][:_SHOWN_WORDS])
        return f"Words shared with the rest of the prompt: {among or 'none'}."


@dataclass(frozen=True, slots=True)
class Drawn:
    """A standing drawn anew for every field, each value of a scale as likely as the others."""

    random: Random

    def level(self) -> float:
        return self.random.random()

    def centre(self, count: int) -> float:
        return float(self.random.randrange(count))

    def sentence(self) -> str:
        return f"Drawn at random: {self.random.random():.2f}."

    def remark(self) -> str:
        return "Drawn at random."


def lexical(request: Request) -> Reply:
    """The reply of the word-overlap judge."""
    found = Lexical(overlap(request))
    return _stand(request, lambda: found)


def drawn(request: Request) -> Reply:
    """The reply of the random judge, decided by the seed and the call's name alone."""
    parts = (request.seed, request.row.lot, request.node, request.call, request.attempt)
    name = "\x1f".join(str(part) for part in parts).encode("utf-8", "surrogatepass")
    seed = int.from_bytes(blake2b(name, digest_size=16).digest())
    return _stand(request, lambda: Drawn(Random(seed)))


def echo(request: Request) -> Reply:
    """The last user message's content.

    Where a JSON object of strings is asked for and the content is none, the content stands in each of its fields.
    """
    users = [message.content for message in request.messages if message.role == "user"]
    text = users[-1] if users else ""
    properties = (request.json_schema or {}).get("properties", {})
    strings = all(part.get("type") == "string" and "enum" not in part for part in properties.values())
    if properties and strings and not _is_json_object(text):
        text = json.dumps(dict.fromkeys(properties, text), ensure_ascii=False)
    return _reply(request, text)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _stand(request: Request, standing: Callable[[], Lexical | Drawn]) -> Reply:
    """JSON where a schema is given, one token where only log-probabilities are wanted, else a text."""
    support = request.support or (token_values(request.json_schema) if request.top_logprobs else ())
    logprobs = None
    text = ""
    if request.top_logprobs and support:
        place = standing().centre(len(support))
        text, alternatives = token(support, place, request.top_logprobs)
        logprobs = (alternatives,)
    if request.json_schema is not None:
        text = json.dumps(fill(request.json_schema, standing()), ensure_ascii=False)
    elif logprobs is None:
        text = _text(standing(), support)
    return _reply(request, text, logprobs)


def _text(standing: Lexical | Drawn, support: tuple[str, ...]) -> str:
    """Words, then a verdict and a score: the scale's own value where the scale is known, else a number from 0 to 1."""
    if support:
        place = nearest_value(standing.centre(len(support)))
        level, score = place / max(1, len(support) - 1), support[place]
    else:
        level = standing.level()
        score = f"{level:.2f}"
    return f"{standing.remark()}\nVERDICT: {'PASS' if level >= 0.5 else 'FAIL'}\nSCORE: {score}"


def _reply(request: Request, text: str, logprobs: tuple[tuple[Alternative, ...], ...] | None = None) -> Reply:
    """Tokens are counted as words: there is no tokenizer, and nobody is charged."""
    asked = sum(len(message.content.split()) for message in request.messages)
    usage = Usage(asked, len(text.split()))
    return Reply(text, logprobs=logprobs, usage=usage, cost_usd=0.0, model=request.model.name)


_BASELINES: dict[str, Callable[[Request], Reply]] = {
    "baseline/lexical": lexical,
    "baseline/random": drawn,
    "baseline/echo": echo,
}
NAMES = tuple(_BASELINES)


class BaselineProvider:
    """Answers ``baseline/*``."""

    async def ask(self, request: Request) -> Reply:
        answer = _BASELINES.get(request.model.name)
        if answer is None:
            known = ", ".join(NAMES)
            raise Refused(f"there is no built-in model {request.model.name!r}", hint=f"the built-in ones are {known}")
        return answer(request)

    async def close(self) -> None:
        return None
