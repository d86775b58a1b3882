"""How near a run comes to what an endpoint allows: whole seconds of `verdict run` against rows × latency ÷ concurrency.

    python benchmarks/calls.py [REPETITIONS]

The endpoint is the loopback server of the shared folder (VERDICT_SHARED, else `../shared`), 200 ms a reply. The cache is
off. Prints a Markdown table of medians.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from rows import make, measure

LATENCY_S = 0.2
ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
ONE = """verdict: 1
name: one
model: {name: openai/gpt-4o-mini}
pipeline:
  - {unit: JudgeUnit, prompt: "Question: {source.question}\\nAnswer: {source.answer}\\nRate the answer."}
"""
FOUR = """verdict: 1
name: four
model: {name: openai/gpt-4o-mini}
pipeline:
  - {unit: CoTUnit, prompt: "Think about {source.question}"}
  - layer: [{unit: JudgeUnit, prompt: "Rate {source.answer} by {previous.thinking}"}]
    repeat: 2
  - unit: MeanPoolUnit
"""
CASES = (
    ("one judge", ONE, 1, 1_000, 128),
    ("one judge", ONE, 1, 3_000, 128),
    ("one judge", ONE, 1, 3_000, 512),
    ("CoT → 2 judges → pool", FOUR, 3, 1_000, 128),
)


def serve(latency_s: float = LATENCY_S) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = SHARED / "bench" / "mock_openai.py"
    if not script.is_file():
        raise SystemExit(f"there is no {script.name} in the shared folder; set VERDICT_SHARED")
    command = [sys.executable, str(script), "--port", str(port), "--latency-ms", str(int(latency_s * 1000))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            urlopen(f"http://127.0.0.1:{port}/stats").close()
            break
        except OSError:
            time.sleep(0.05)
    return process, f"http://127.0.0.1:{port}/v1"


def main(repetitions: int) -> None:
    """Prints the table."""
    server, url = serve()
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    try:
        print("| pipeline | rows | at once | bound s | whole process s | times the bound | peak MB |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for label, text, calls, rows, concurrency in CASES:
                config = folder / "pipeline.yaml"
                config.write_text(text, encoding="utf-8")
                more = ("--no-cache", "--concurrency", str(concurrency))
                runs = [measure(folder, config, make(folder, rows), *more) for _ in range(repetitions)]
                seconds = statistics.median(each.seconds for each in runs)
                peak = statistics.median(each.peak_mb for each in runs)
                bound = rows * calls * LATENCY_S / concurrency
                print(
                    f"| {label} | {rows:,} | {concurrency} | {bound:.2f} | {seconds:.2f} | {seconds / bound:.2f} | {peak:.0f} |"
                )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
