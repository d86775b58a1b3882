"""Run time compared with the bound of an endpoint: seconds of `verdict run` against rows × latency ÷ concurrency, as the
endpoint sees them from the first request to the last reply, and those of the whole process.

    python benchmarks/calls.py [REPETITIONS] [bound] [process] [cpu] [providers]

The endpoint is the loopback server of the shared folder (VERDICT_SHARED, else `../shared`), 200 ms a reply. The cache is
off. Python's modules are compiled beforehand, as those of an installed package are. Prints Markdown tables of medians.
`process` runs the same rows by a bare aiohttp loop (`peer_minimal.py` of the shared folder) in turn, whole processes. `cpu` uses
replies of 200 ms plus or minus 100, as those of a provider are spread: replies that all arrive at once are read in one go, which
halves what the bare client takes and which no provider gives.
`providers` judges 2,000 rows by a server of our own that speaks each provider's wire format (`loopback.py`), in turn with
OpenAI's, and fails where litellm was imported.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from loopback import WIRES
from rows import make, measure

LATENCY_S = 0.2
SPREAD_S = 0.1
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
COSTS = (
    ("native", ONE, "pyreqwest", 3_000, 12_000, 256),
    (
        "litellm",
        ONE.replace("-mini}", "-mini, params: {drop_params: true}}"),
        "litellm",
        300,
        1_300,
        64,
    ),
)
"""Label, pipeline, the bare client (that of `bare_client.py`, or one of floor.py), two numbers of rows whose difference counts, concurrent calls."""


def serve(
    latency_s: float = LATENCY_S, spread_s: float = 0.0
) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its base URL. A reply takes the latency, plus or minus up to the spread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = SHARED / "bench" / "mock_openai.py"
    if not script.is_file():
        raise SystemExit(f"there is no {script.name} in the shared folder; set VERDICT_SHARED")
    command = [
        sys.executable,
        str(script),
        "--port",
        str(port),
        "--latency-ms",
        str(int(latency_s * 1000)),
    ]
    command += ["--jitter-ms", str(int(spread_s * 1000))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            urlopen(f"http://127.0.0.1:{port}/stats").close()
            break
        except OSError:
            time.sleep(0.05)
    return process, f"http://127.0.0.1:{port}/v1"


@contextmanager
def against(latency_s: float | None, spread_s: float = 0.0) -> Iterator[str]:
    """The server, to which this process's runs go as long as the block lasts; none for no latency. Yields its base URL."""
    before = os.environ.get("OPENAI_BASE_URL", "")
    if latency_s is None:
        yield before
        return
    server, url = serve(latency_s, spread_s)
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    try:
        yield url
    finally:
        os.environ["OPENAI_BASE_URL"] = before
        server.terminate()
        server.wait()


def floor(url: str, client: str, concurrency: int, calls: int) -> float:
    """Seconds of CPU a call of a bare client that does the same requests and parses the same replies."""
    folder = SHARED / "bench"
    command = [sys.executable, "floor.py", "--client", client, "--loop", "uvloop", "--base", url]
    command += ["--concurrency", str(concurrency), "--calls", str(calls)]
    if client == "pyreqwest":  # the program's own library
        folder, command = (
            ROOT / "benchmarks",
            [sys.executable, "bare_client.py", url, str(calls), str(concurrency)],
        )
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return float(json.loads(done.stdout)["cpu_ms_per_call"]) / 1000


def served_s(url: str, rest: str = "stats") -> float:
    """Seconds from the first request to the last reply since the server's counters were last set to zero."""
    there = Request(
        f"{url.removesuffix('/v1')}/{rest}", method="POST" if rest.endswith("reset") else "GET"
    )
    with urlopen(there) as answer:
        return float(json.load(answer)["seconds"])


def walls(folder: Path, repetitions: int, url: str) -> None:
    """Prints how near the calls, and the whole process, come to the bound."""
    print(
        "| pipeline | rows | concurrent | bound s | first request to last reply s | times the bound | whole process s "
        "| times the bound | peak MB |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for label, text, calls, rows, concurrency in CASES:
        config = folder / "pipeline.yaml"
        config.write_text(text, encoding="utf-8")
        more = ("--no-cache", "--concurrency", str(concurrency))
        runs, calling = [], []
        for _ in range(repetitions):
            served_s(url, "stats/reset")
            runs.append(measure(folder, config, make(folder, rows), *more))
            calling.append(served_s(url))
        inside = statistics.median(calling)
        seconds = statistics.median(run.seconds for run in runs)
        peak = statistics.median(run.peak_mb for run in runs)
        bound = rows * calls * LATENCY_S / concurrency
        print(
            f"| {label} | {rows:,} | {concurrency} | {bound:.2f} | {inside:.2f} | {inside / bound:.2f} | {seconds:.2f} "
            f"| {seconds / bound:.2f} | {peak:.0f} |",
            flush=True,
        )


def processes(folder: Path, repetitions: int, _: str) -> None:
    """Prints the seconds of whole processes beside those of a bare aiohttp loop; the two run in turn."""
    print("\n| pipeline | rows | concurrent | whole process s | bare aiohttp loop s | times |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    loop = SHARED / "bench" / "peer_minimal.py"
    for label, text, calls, rows, concurrency in CASES:
        config, data = folder / "pipeline.yaml", make(folder, rows)
        config.write_text(text, encoding="utf-8")
        bare = [
            sys.executable,
            str(loop),
            "--rows",
            str(rows),
            "--work",
            "cot" if calls > 1 else "single",
        ]
        bare += ["--concurrency", str(concurrency)]
        ours, theirs = [], []
        for _repetition in range(repetitions):
            ours.append(
                measure(
                    folder, config, data, "--no-cache", "--concurrency", str(concurrency)
                ).seconds
            )
            start = time.perf_counter()
            subprocess.run(bare, cwd=folder, stdout=subprocess.DEVNULL, check=True)
            theirs.append(time.perf_counter() - start)
        whole, least = statistics.median(ours), statistics.median(theirs)
        print(
            f"| {label} | {rows:,} | {concurrency} | {whole:.2f} | {least:.2f} | {whole / least:.2f} |",
            flush=True,
        )


def cpu(folder: Path, repetitions: int, _: str) -> None:
    """Prints what one more call costs, and what it costs a bare client; the two run in turn."""
    print("\n| path | CPU ms a call | bare client's | times |\n| --- | ---: | ---: | ---: |")
    with against(LATENCY_S, SPREAD_S) as url:
        for label, text, client, few, many, concurrency in COSTS:
            config = folder / "pipeline.yaml"
            config.write_text(text, encoding="utf-8")
            more = ("--no-cache", "--concurrency", str(concurrency))
            costs = []
            for _repetition in range(repetitions):
                short, long = (
                    measure(folder, config, make(folder, rows), *more).cpu_s for rows in (few, many)
                )
                costs.append(
                    ((long - short) / (many - few), floor(url, client, concurrency, many - few))
                )
            ours, bare = (statistics.median(values) for values in zip(*costs, strict=True))
            print(
                f"| {label} | {1000 * ours:.3f} | {1000 * bare:.3f} | {ours / bare:.2f} |",
                flush=True,
            )


WITHOUT_LITELLM = """
import sys
from verdict_cli.cli.app import main
try:
    main()
finally:
    assert "litellm" not in sys.modules
"""


def providers(folder: Path, repetitions: int, _: str) -> None:
    """Prints what each provider's path takes, over what OpenAI's takes."""
    script = Path(__file__).with_name("loopback.py")
    server = subprocess.Popen(
        [sys.executable, str(script), "--latency-s", str(LATENCY_S)], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    base = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    os.environ |= {f"{name.upper()}_API_KEY": "none" for name in WIRES}
    data = make(folder, 2_000)
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in WIRES if name != "openai"}
    try:
        for _repetition in range(repetitions):
            for name, found in ratios.items():
                runs = []
                for each in (name, "openai"):
                    config = folder / "pipeline.yaml"
                    model = f"{{name: {WIRES[each][0]}, api_base: '{base}'}}"
                    config.write_text(
                        ONE.replace("{name: openai/gpt-4o-mini}", model), encoding="utf-8"
                    )
                    more = ("--no-cache", "--concurrency", "128")
                    runs.append(
                        measure(folder, config, data, *more, program=("-c", WITHOUT_LITELLM))
                    )
                found.append((runs[0].seconds / runs[1].seconds, runs[0].cpu_s / runs[1].cpu_s))
    finally:
        server.terminate()
        server.wait()
    print("\n| provider | times OpenAI's wall time | times its CPU |\n| --- | ---: | ---: |")
    for name, found in ratios.items():
        wall, cpu_ratio = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"| {name} | {wall:.2f} | {cpu_ratio:.2f} |")


TABLES = {"bound": walls, "process": processes, "cpu": cpu, "providers": providers}


def main(repetitions: int, tables: Sequence[str]) -> None:
    """Prints the tables."""
    server, url = serve()
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
            (folder / "pipeline.yaml").write_text(ONE, encoding="utf-8")
            measure(folder, folder / "pipeline.yaml", make(folder, 10), "--no-cache")
            for table in tables or TABLES:
                TABLES[table](folder, repetitions, url)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    main(numbers[0] if numbers else 5, [text for text in sys.argv[1:] if not text.isdecimal()])
