"""How many calls a provider's prompt cache serves, and what the prompts cost, with `prompt_cache: auto` and `off`.

    OPENAI_API_KEY=x ANTHROPIC_API_KEY=x python benchmarks/prompt_cache.py [--rows 100]

A judge and a verifier, three times each, on a document of 2,000 tokens a row (5,000 where the model's minimum is 4,096). The
server is on loopback and answers after 40 to 160 ms. It bills prefixes as providers do; a prefix is cached once a call with
it is answered:

- vllm: the messages in steps of 128 tokens from 1,024 on; cached tokens cost half
- openai: the same, and the JSON schema precedes the messages
- anthropic: what `cache_control` marks, from 4,096 tokens on, with the schema in the key: written at 1.25, read at 0.1 of the price

"possible" are the hits if the same requests had been made one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import LoopbackServer

CONFIG = """verdict: 1
name: cached
model: {{name: {model}, api_base: 'http://127.0.0.1:{port}{version}', prompt_cache: {mode}}}
delimit: true
pipeline:
- layer:
  - block:
    - unit: JudgeUnit
      name: judge
      explanation: true
      prompt: |
        {{source.text}}

        How well is this written?
    - unit: JudgeUnit
      name: verify
      prompt: |
        {{source.text}}

        A judge gave this text {{previous.judge.score}} points, for this reason: {{previous.judge.explanation}}
        How good is that judgement?
  repeat: 3
"""
CHARS_A_TOKEN = 4
STEP = 128
BLOCKS_BACK = 20
"""How many blocks before a mark Anthropic looks for an earlier entry."""


@dataclass
class Bill:
    """What was charged, in prompt tokens at the full price."""

    calls: int = 0
    hits: int = 0
    tokens: int = 0
    cached: int = 0
    charged: float = 0.0


@dataclass
class StepCache:
    """A cache of prefixes in steps, as of vLLM and OpenAI."""

    with_schema: bool
    least: int = 1024
    read_at: float = 0.5
    known: set[bytes] = field(default_factory=set)

    def bill(self, body: Mapping[str, Any], into: Bill) -> dict[str, Any]:
        text = self._text(body)
        tokens = len(text) // CHARS_A_TOKEN
        cached = 0
        for size, digest in self._prefixes(text):
            if digest not in self.known:
                break
            cached = size
        into.calls += 1
        into.hits += cached > 0
        into.tokens += tokens
        into.cached += cached
        into.charged += tokens - cached * (1 - self.read_at)
        return {
            "prompt_tokens": tokens,
            "completion_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def remember(self, body: Mapping[str, Any]) -> None:
        self.known.update(digest for _, digest in self._prefixes(self._text(body)))

    def _text(self, body: Mapping[str, Any]) -> bytes:
        parts = [body.get("response_format")] if self.with_schema else []
        return json.dumps([*parts, body["messages"]]).encode()

    def _prefixes(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        for size in range(self.least, len(text) // CHARS_A_TOKEN + 1, STEP):
            yield size, hashlib.sha256(text[: size * CHARS_A_TOKEN]).digest()


@dataclass
class MarkedCache:
    """Anthropic's cache: of what is marked alone, and all of it to the last block."""

    least: int = 4096
    known: set[bytes] = field(default_factory=set)

    def bill(self, body: Mapping[str, Any], into: Bill) -> dict[str, Any]:
        blocks = [*self._blocks(body)]
        tokens = blocks[-1][0]
        marks = [at for at, (size, marked, _) in enumerate(blocks) if marked and size >= self.least]
        read = written = 0
        if marks:
            looked_at = range(marks[-1], max(-1, marks[-1] - BLOCKS_BACK), -1)
            read = next((blocks[at][0] for at in looked_at if blocks[at][2] in self.known), 0)
            written = blocks[marks[-1]][0] - read
        into.calls += 1
        into.hits += read > 0
        into.tokens += tokens
        into.cached += read
        into.charged += tokens - read - written + 1.25 * written + 0.1 * read
        return {
            "input_tokens": tokens - read - written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 8,
        }

    def remember(self, body: Mapping[str, Any]) -> None:
        self.known.update(
            digest for size, marked, digest in self._blocks(body) if marked and size >= self.least
        )

    def _blocks(self, body: Mapping[str, Any]) -> Iterator[tuple[int, bool, bytes]]:
        """(tokens up to its end, whether it is marked, digest up to its end) of each block."""
        digest = hashlib.sha256(json.dumps(body.get("output_config")).encode())
        chars = 0
        for content in (
            body.get("system", []),
            *(message["content"] for message in body["messages"]),
        ):
            for block in content:
                chars += len(block["text"])
                digest.update(block["text"].encode())
                yield chars // CHARS_A_TOKEN, "cache_control" in block, digest.digest()


CACHES = {
    "vllm": ("openai/own-model", 2000, lambda: StepCache(with_schema=False)),
    "openai": ("openai/gpt-4o-mini", 2000, lambda: StepCache(with_schema=True)),
    "anthropic": ("anthropic/claude-haiku-4-5", 5000, MarkedCache),
}


class PrefixServer(LoopbackServer):
    """Answers every call after a while, and bills its prompt."""

    def __init__(self, cache: StepCache | MarkedCache) -> None:
        super().__init__()
        self.cache = cache
        self.billed = Bill()
        self.bodies: list[Any] = []
        self._random = random.Random(5)

    async def answer_to(self, path: str, body: bytes) -> tuple[str, Mapping[str, str], object]:
        request = json.loads(body)
        self.bodies.append(request)
        usage = self.cache.bill(request, self.billed)
        await asyncio.sleep(self._random.uniform(0.04, 0.16))
        self.cache.remember(request)
        text = (
            '{"explanation": "It is clear.", "score": 4}'
            if '"explanation"' in body.decode()
            else '{"score": 4}'
        )
        if path.endswith("/messages"):
            content = [{"type": "text", "text": text}]
            return (
                "200 OK",
                {},
                {"model": "m", "content": content, "stop_reason": "end_turn", "usage": usage},
            )
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return "200 OK", {}, {"model": "m", "choices": [choice], "usage": usage}


async def measure(name: str, mode: str, rows: int, folder: Path) -> tuple[Bill, Bill, float]:
    """What was billed, what would have been billed one call after the other, and the seconds of the run."""
    model, tokens, make = CACHES[name]
    server = PrefixServer(make())
    listening, port = await server.serve()
    version = "" if name == "anthropic" else "/v1"
    (folder / "cached.yaml").write_text(
        CONFIG.format(model=model, port=port, version=version, mode=mode)
    )
    words = random.Random(7)
    texts = [
        " ".join(
            "".join(words.choices("abcdefghij", k=4)) for _ in range(tokens * CHARS_A_TOKEN // 5)
        )
        for _ in range(rows)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command = [
        "run",
        "cached.yaml",
        "rows.jsonl",
        "--out",
        f"out-{mode}",
        "--no-cache",
        "--json",
        "--yes",
    ]
    started = asyncio.get_running_loop().time()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "verdict_cli",
        *command,
        "--quiet",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    listening.close()
    assert json.loads(output)["failed"] == 0, output
    possible, fresh = Bill(), make()
    for body in server.bodies:
        fresh.bill(body, possible)
        fresh.remember(body)
    return server.billed, possible, asyncio.get_running_loop().time() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100)
    rows = parser.parse_args().rows
    print("| cache | prompt_cache | calls | hits | possible | cached tokens | input cost | s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in CACHES:
        for mode in ("off", "auto"):
            with tempfile.TemporaryDirectory() as folder:
                billed, possible, took = asyncio.run(measure(name, mode, rows, Path(folder)))
            share, cost = billed.cached / billed.tokens, billed.charged / billed.tokens
            print(
                f"| {name} | {mode} | {billed.calls} | {billed.hits} | {possible.hits} | {share:.0%} | {cost:.2f} | {took:.1f} |"
            )


if __name__ == "__main__":
    main()
