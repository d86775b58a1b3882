"""The built-in floors to beat: ``baseline/lexical``, ``baseline/random``, ``baseline/echo``.

They need no key and no network, cost nothing, and answer equal requests equally on every machine. They are not
judges: their figures say what an answer by no understanding at all would score.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from verdict_cli.errors import Refused
from verdict_cli.providers.overlap import Overlap, overlap
from verdict_cli.providers.standing import fill, nearest, token, token_values
from verdict_cli.values import Alternative, Reply, Request, Usage

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
        place = nearest(standing.centre(len(support)))
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
            raise Refused(
                f"there is no built-in model {request.model.name!r}", hint=f"the built-in ones are {known}"
            )
        return answer(request)

    async def close(self) -> None:
        return None
