"""Overhead of calling `Judge`: microseconds per row with the embedded model, by calling method.

python benchmarks/judge.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from verdict_cli import Judge, JudgeUnit, Pipeline
from verdict_cli.run.judge_session import JudgeSession
from verdict_cli.run.model_client import ModelClient

ROW = {"question": "What is the capital of France?", "answer": "The capital of France is Paris."}
ROUNDS = 15
CALLS = 500


def microseconds(work: Callable[[int], object], count: int = CALLS) -> float:
    """The least time of a row in several rounds of so many: other work on the machine only adds to it."""
    work(max(1, count // 10))
    took = []
    for _ in range(ROUNDS):
        start = perf_counter()
        work(count)
        took.append((perf_counter() - start) / count)
    return 1e6 * min(took)


def bare(pipeline: Pipeline) -> float:
    """Rows one after another in the loop that judges them: the pipeline itself."""

    async def work(count: int) -> None:
        warm = await JudgeSession(pipeline.plan(), ModelClient.open()).open()
        for _ in range(count):
            await warm.judge(warm.row(ROW))

    return microseconds(lambda count: asyncio.run(work(count)))


def main() -> None:
    """Print the table."""
    unit = JudgeUnit().prompt("Does the answer {source.answer} fit the question {source.question}?")
    pipeline = Pipeline("bench", model="baseline/lexical") >> unit
    with Judge(pipeline) as judge:

        async def awaited(count: int) -> None:
            for _ in range(count):
                await judge.acall(ROW)

        async def together(count: int) -> None:
            await asyncio.gather(*(judge.acall(ROW) for _ in range(count)))

        ways = {
            "the pipeline itself, in one loop": bare(pipeline),
            "`judge(row)`": microseconds(lambda count: [judge(ROW) for _ in range(count)]),
            "`await judge.acall(row)`": microseconds(lambda count: asyncio.run(awaited(count))),
            "`judge.acall`, 500 concurrent": microseconds(
                lambda count: asyncio.run(together(count))
            ),
            "`judge.reward(rows)`, 500 rows": microseconds(
                lambda count: judge.reward([ROW] * count)
            ),
            "`Pipeline.run(row)`": microseconds(
                lambda count: [pipeline.run(ROW) for _ in range(count)], 100
            ),
        }
    own = ways["the pipeline itself, in one loop"]
    print("| Method | µs a row | Of it outside the pipeline |")
    print("| --- | ---: | ---: |")
    for name, took in ways.items():
        print(f"| {name} | {took:.0f} | {max(0.0, took - own):.0f} |")


if __name__ == "__main__":
    main()
