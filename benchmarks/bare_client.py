"""What a call costs a bare loop over the program's own HTTP library: the body is built, sent, and the reply parsed.

    python benchmarks/bare_client.py URL CALLS CONCURRENT

Prints the CPU milliseconds of a call as JSON. The prompts, with a schema as a `JudgeUnit` sends it, are made beforehand.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
from collections.abc import Sequence
from datetime import timedelta

import orjson
import uvloop
from pyreqwest.client import ClientBuilder
from pyreqwest.http import Url
from rows import WORDS

SCORE = {"type": "integer", "enum": [1, 2, 3, 4, 5]}
SCHEMA = {
    "type": "object",
    "properties": {"score": SCORE},
    "required": ["score"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}
TIMEOUT = timedelta(seconds=60)


def used_s() -> float:
    """The processor's time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main(base: str, calls: int, concurrent: int) -> None:
    """Print what a call costs, after some that open the connections."""
    client = ClientBuilder().follow_redirects(False).pool_idle_timeout(TIMEOUT).no_proxy().build()
    url = Url(f"{base}/chat/completions")
    draw, words = random.Random(0), WORDS.split()
    prompts = [f"Rate: {' '.join(draw.choices(words, k=80))}" for _ in range(calls)]

    async def call(prompt: str) -> tuple[str, int]:
        message = {"role": "user", "content": prompt}
        body = orjson.dumps(
            {"model": "gpt-4o-mini", "messages": [message], "response_format": FORM}
        )
        sending = (
            client.post(url).headers(HEADERS).body_bytes(body).timeout(TIMEOUT).build_streamed()
        )
        async with sending as response:
            reply = orjson.loads(bytes(await response.bytes()))
        return reply["choices"][0]["message"]["content"], reply["usage"]["prompt_tokens"]

    async def work(prompts: Sequence[str]) -> None:
        remaining = iter(prompts)

        async def worker() -> None:
            for prompt in remaining:
                await call(prompt)

        await asyncio.gather(*(worker() for _ in range(concurrent)))

    await work(prompts[: 2 * concurrent])
    before = used_s()
    await work(prompts)
    print(json.dumps({"cpu_ms_per_call": 1000 * (used_s() - before) / calls}), flush=True)
    os._exit(0)  # what closing the connections costs is not a call's


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
