"""Fuzz everything that reads untrusted text: python benchmarks/fuzz.py [--guided] [--seconds 600] [PART ...]

Each part is given mutated and generated input until its time is up. Allowed are the program's own errors; anything else is
a failure, is printed with its input, and makes the exit code 1. Printed for each part: examples, the slowest one, and by
how much the process's memory grew after the first tenth of the time. With --guided the inputs are those that atheris finds
by the code that they reach (`fuzz_guided.py`), else hypothesis makes them up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from pyreqwest.http import Url
from typer.testing import CliRunner
from yarl import URL

from verdict_cli.cli.app import app
from verdict_cli.errors import VerdictError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, unresolved
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.extractors.verdict import VerdictExtractor
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    RecordType,
    ScaleType,
    TextListType,
)
from verdict_cli.language.model_address import AddressError, parse_address
from verdict_cli.language.prompts.jinja import compile_jinja
from verdict_cli.language.prompts.placeholders import insert
from verdict_cli.language.prompts.prompt import compile_prompt
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale
from verdict_cli.llm.providers.http_errors import Source, error_detail
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.build import load_plan
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent
from verdict_cli.storage.database.repair import repair
from verdict_cli.storage.database.schema import DamagedError, check_pages

ROOT = Path(__file__).parents[1]
SLOWEST_S = 10.0
REQUEST = Request(Row(0, 0, {}), "judge", Model(name="gpt-4o"), (Message("user", "x"),))
STREAMED = Request(
    Row(0, 0, {}), "judge", Model(name="gpt-4o"), (Message("user", "x"),), stream=True
)
RESPONSE = RecordType(
    {
        "why": TEXT,
        "score": ScaleType(LIKERT),
        "n": INTEGER,
        "p": NUMBER,
        "ok": TRUTH,
        "items": TextListType(),
    }
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def mutated(seeds: list[bytes], words: list[bytes]) -> st.SearchStrategy[bytes]:
    """TextStream of the seeds, cut, doubled and mixed with words and noise."""

    @st.composite
    def draw_one(draw: Any) -> bytes:
        text = bytearray(draw(st.sampled_from(seeds)))
        for _ in range(draw(st.integers(0, 8))):
            at = draw(st.integers(0, len(text)))
            end = min(len(text), at + draw(st.integers(0, 40)))
            kind = draw(st.integers(0, 4))
            if kind == 0:
                text[at:end] = b""
            elif kind == 1:
                text[at:at] = draw(st.sampled_from(words))
            elif kind == 2:
                text[at:at] = draw(st.binary(max_size=6))
            elif kind == 3:
                text[at:end] = text[at:end] * draw(st.integers(2, 50))
            else:
                text[at:end] = draw(st.sampled_from(words))
        return bytes(text)

    return draw_one()


def words(text: str) -> list[bytes]:
    """The words of a text, as bytes."""
    return [word.encode() for word in text.split()]


YAML_WORDS = words(
    "&a *a << !!python/object:os.system !!binary | > --- ... %YAML {} [] ? : - # ' \" ${HOME} .. ../x ~ \0"
)
YAML_WORDS += [
    b"\n",
    b"\n  ",
    b"\t",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"\xff",
    b"- [",
    b"{a: ",
    b"\xf0\x9f\x98\x80",
]
CODE = words(
    "source.a source['a'] 1 0 -1 1e308 'a' \"b\" + - * / // % ** ~ ( ) [ ] { } , : . | == != < > and or not in is if else "
    "true none map(attribute='a') mean max min sum list join sort length round int float replace('a','bb') center(99999) "
    "format(1) .items() .upper() .join .format( _ __class__ defined loop tojson batch(3) slice(3) range lipsum self"
)
TAGS = words(
    "{{ }} {% %} {# #} {%- -%} for x in source.l endfor if endif set macro endmacro call endcall block raw endraw"
)
TAGS += [
    b"<system>",
    b"<user>",
    b"</user>",
    b"\n",
    b"{source.a}",
    b"{source.a:",
    b"{previous",
    b"{unit",
    b"\\{",
    b"}",
]


def pipelines(text: bytes) -> None:
    """The loader and the plan."""
    load_plan(parse_document(text, "fuzz.yaml"), ROOT / "configs")


VALUES: dict[str, Any] = {
    "source": {"a": "text {{ 1 }} <user>", "n": 3, "l": [1, 2, "x"], "m": {"k": None}}
}


def expressions(text: bytes) -> None:
    """Expressions, compiled and computed."""
    compile_expression(text.decode("utf-8", "replace"))(VALUES)


def templates(text: bytes) -> None:
    """Both kinds of prompts, compiled and rendered."""
    written = text.decode("utf-8", "replace")
    roots = ("source", "previous", "input", "unit")
    for delimit in (False, True):
        made = compile_jinja(written, roots, unresolved, lambda *_: None, delimit)
        plain = compile_prompt(written, unresolved, lambda *_: None, lambda *_: None, delimit)
        for one in (made, plain):
            if one is not None:
                with contextlib.suppress(VerdictError):
                    one.render(VALUES)
    insert(VALUES, "")


SCALES = (
    LIKERT,
    BooleanScale(),
    ContinuousScale(min=0, max=1),
    DiscreteScale(values=("a", "b")),
    DiscreteScale(range=("A", "E")),
)


def scales(value: Any) -> None:
    """Every kind of scale, told any value."""
    for one in SCALES:
        with contextlib.suppress(VerdictError):
            one.read(value)


READERS = [
    extractor.bind(response).read
    for extractor, response in (
        (StructuredOutputExtractor(), RESPONSE),
        (
            RegexExtractor(fields={"score": "FIRST_INT", "n": "LAST_INT", "p": "(a+)+$"}),
            RecordType({"score": ScaleType(LIKERT), "n": INTEGER, "p": TEXT}),
        ),
        (VerdictExtractor(), RecordType({"score": ScaleType(LIKERT)})),
    )
]


def extractors(text: bytes) -> None:
    """Extractors on a reply's text."""
    for reader in READERS:
        for finish in ("stop", "length"):
            with contextlib.suppress(VerdictError):
                reader(Reply(text.decode("utf-8", "replace"), finish_reason=finish), REQUEST)


RUN_CONFIG = """
verdict: 1
name: fuzz
model: {name: gpt-4o-mini, retries: 1}
dataset: {id: id}
pipeline:
  - layer:
      - {unit: JudgeUnit, name: judge, scale: 1-5, explanation: true, on_failure: skip, prompt: "Rate {source.text}"}
      - {unit: JudgeUnit, name: number, scale: 1-5, extract: {type: regex, pattern: LAST_FLOAT}, on_failure: skip, prompt: "{source.text}"}
      - {unit: JudgeUnit, name: tokens, scale: 1-5, extract: weighted_summed_score, on_failure: skip, prompt: "{source.text}"}
      - {unit: RubricUnit, name: rubric, criteria: [Short], on_failure: skip, prompt: "{source.text}"}
      - {unit: CoTUnit, name: thought, on_failure: skip, prompt: "{source.text}"}
  - {unit: JudgeUnit, name: last, scale: boolean, explanation: true, prompt: "{source.text}"}
evaluate: {last: {prediction: output.score, target: source.right, positive: true, metrics: [accuracy]}}
"""
RUN_UNITS = ("judge", "number", "tokens", "rubric", "thought", "last")


def runs(content: bytes) -> None:
    """A whole run, from the replies of a recording to its report and resumed: every end but an internal error."""
    texts = content.decode("utf-8", "surrogateescape").split("\x1e")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        (folder / "p.yaml").write_text(RUN_CONFIG, encoding="utf-8")
        rows = [
            {"id": index, "text": texts[index % len(texts)], "right": True} for index in range(3)
        ]
        _write_lines(folder / "data.jsonl", rows)
        replies = [
            {
                "id": row,
                "unit": unit,
                "attempt": attempt,
                "reply": text,
                "logprobs": [[{"token": text[:3], "logprob": -0.1}]],
            }
            for row in range(3)
            for place, unit in enumerate(RUN_UNITS)
            for attempt in range(2)
            if (text := texts[(row + place + attempt) % len(texts)])
        ]
        _write_lines(folder / "replies.jsonl", replies)
        command = [
            "run",
            folder / "p.yaml",
            folder / "data.jsonl",
            "--replay",
            folder / "replies.jsonl",
            "--out",
            folder / "out",
        ]
        for _ in range(2):
            done = CliRunner().invoke(app, [*map(str, command), "--quiet"])
            if done.exception is not None and not isinstance(
                done.exception, SystemExit | VerdictError
            ):
                raise done.exception
            assert done.exit_code in (0, 1, 2, 3), done.output[-400:]


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def database(content: bytes) -> None:
    """A database with any bytes in it, repaired, opened, read, and written on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        path.write_bytes(content)
        try:
            check_pages(path)
            Database.open(path).close()
        except DamagedError:
            repair(path)
        with Database.open(path) as opened:
            opened.find(b"1")
            opened.add_call(b"2", (0, "judge", "", 0, 0), "m", CallContent(Reply("x")))


def replies(content: bytes) -> None:
    """RequestBodies of servers, whole and streamed."""
    for request in (REQUEST, STREAMED):
        for hidden in ((), ("planted-key",)):
            with contextlib.suppress(VerdictError):
                read_body(content, request, Source("m", hidden=hidden), hidden)
    error_detail(content, ("planted-key",))


def addresses(text: bytes) -> None:
    """An address that is accepted: the client that calls it, and three other parsers, take the same host from it."""
    spelled = text.decode(errors="replace")
    try:
        address = parse_address(spelled)
    except AddressError:
        return
    called = Url(spelled)
    bare = address.host.strip("[]")
    assert (address.scheme, address.host, address.port) == (
        called.scheme,
        called.host_str,
        called.port,
    ), spelled
    assert not called.username and not called.password, spelled
    others = (
        urlsplit(spelled).hostname,
        httpx.URL(spelled).raw_host.decode(),
        URL(spelled).raw_host,
    )
    assert others == (bare,) * 3, (spelled, others)


def seeds_of_database() -> list[bytes]:
    """A database as the program writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        with Database.open(path) as opened:
            for row in range(3):
                opened.add_call(
                    b"%d" % row, (row, "judge", "", 0, 0), "m", CallContent(Reply("four", "stop"))
                )
            opened.add_call(
                b"9",
                (9, "judge", "", 1, 2),
                "m",
                CallContent(None, error="slow"),
                failure="timeout",
            )
        return [path.read_bytes()]


CHAT = (
    b'{"choices": [{"message": {"content": "Score: 4", "tool_calls": [{"index": 0, "function": {"name": "reply", "arguments": "{}"}}]},'
    b'"finish_reason": "stop", "logprobs": {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": []}]}}], "model": "m",'
    b'"usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}}'
)
EVENT = CHAT.replace(b'"message"', b'"delta"')
JSON_WORDS = words(
    'null true NaN -Infinity 1e999 -5 [ ] { } [[[[[[ {"a": , : " \\ud800 \\u0000 [DONE] data: 99999999999999999999'
)
ANSWERS = [
    b'{"explanation": "fine", "score": 4}',
    b'{"explanation": "half \\ud83d", "score": true}',
    b"<think>2</think>\nVERDICT: PASS\nSCORE: 8/10",
    b"<|channel|>analysis<|message|>2<|end|><|start|>assistant<|channel|>final<|message|>4",
    "Score: −2, or 4 out of 5".encode(),
    b"3",
]
REPLY_WORDS = words(
    '<think> </think> [THINK] <|im_end|> </s> VERDICT: SCORE: PASS FAIL not 8/10 1-10 80% 1e308 -1 1,5 ** ``` { } " \\ \\( \\ud83d \\u0000 [1-9] null NaN'
)
REPLY_WORDS += [
    b"\n",
    b"\x1e",
    b"\xff",
    b"\x00",
    b"\xed\xa0\xbd",
    *(char.encode() for char in "\u200b\u202e\ufeff\u2212８½٫"),
]
ANSWER = b'```json\n{"why": "a", "score": 4, "n": 1, "p": 0.5, "ok": true, "items": ["a"]}\n```\nFINAL VERDICT: 4'

PIPELINES = [path.read_bytes() for path in sorted(ROOT.glob("configs/*.yaml"))]
DATABASES = seeds_of_database()
BODIES = [CHAT, b"data: " + EVENT + b"\n\ndata: [DONE]\n"]

HOSTS = words(
    "127.0.0.1 127.0.0.2 localhost evil.example [::1] [::2] 0 0x7f.1 xn--e api.openai.com 2130706433 ::ffff:127.0.0.1"
)
ADDRESS_WORDS = words(
    "http https HTTP : / // \\ @ [ ] ? # % . :80 :8954 %2e %40 %5c %00 user:pass@ v1 - * , ; ' | ^ < { _ ~ $ &"
)
ADDRESS_WORDS += [
    b"\t",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\x7f",
    *map(str.encode, "\xa0\u3002\uff0f\u200b\xdf\uff11\u2100"),
    *HOSTS,
]
ADDRESSES = [
    b"http://127.0.0.1:8000/v1",
    b"https://api.openai.com/v1",
    b"http://[::1]:80/v1?a=b#c",
    b"http://gpu_1.local",
]

PARTS: dict[str, tuple[Callable[[Any], None], st.SearchStrategy[Any]]] = {
    "loader": (pipelines, mutated(PIPELINES, YAML_WORDS)),
    "expressions": (expressions, st.lists(st.sampled_from(CODE), max_size=14).map(b" ".join) | mutated([b"source.a"], CODE)),
    "templates": (templates, st.lists(st.sampled_from(CODE + TAGS), max_size=20).map(b" ".join)),
    "scales": (scales, JSON),
    "extractors": (extractors, mutated([ANSWER, *ANSWERS], [*JSON_WORDS, *REPLY_WORDS]) | st.lists(st.sampled_from([b"a" * 40 + b"!", *JSON_WORDS]), max_size=9).map(b" ".join)),
    "runs": (runs, mutated([b"\x1e".join(ANSWERS), *ANSWERS], REPLY_WORDS)),
    "database": (database, mutated(DATABASES, [*JSON_WORDS, b"\n", b"\0"])),
    "addresses": (addresses, mutated(ADDRESSES, ADDRESS_WORDS) | st.lists(st.sampled_from(ADDRESS_WORDS) | st.binary(max_size=2), max_size=12).map(lambda parts: b"http://" + b"".join(parts))),
    "replies": (replies, mutated(BODIES, [*JSON_WORDS, b"\n", b"\ndata: "]) | JSON.map(lambda one: json.dumps(one).encode())),
}  # fmt: skip
"""What is tried, and what hypothesis makes up for it."""

CORPORA: dict[str, tuple[list[bytes], list[bytes]]] = {
    "loader": (PIPELINES, YAML_WORDS),
    "expressions": (CODE, CODE),
    "templates": (CODE + TAGS, CODE + TAGS),
    "scales": (JSON_WORDS, JSON_WORDS),
    "extractors": ([ANSWER], JSON_WORDS),
    "runs": ([b"\x1e".join(ANSWERS)], REPLY_WORDS),
    "database": (DATABASES, JSON_WORDS),
    "addresses": (ADDRESSES, ADDRESS_WORDS),
    "replies": (BODIES, JSON_WORDS),
}
"""What atheris starts from, and the words that it knows."""


def memory_mib() -> float:
    """What the process holds now, in MiB; its peak where the system does not say."""
    try:
        return (
            int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
            * resource.getpagesize()
            / 2**20
        )
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Watch:
    """What one part was given so far, for so many seconds."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds, self.part = name, seconds, PARTS[name][0]
        self.start, self.base = time.monotonic(), 0.0
        self.count, self.failed, self.slowest = 0, 0, 0.0
        self.worst: Any = None

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.spent > self.seconds

    def give(self, value: Any) -> None:
        """Gives the part one value; prints what it raises beside the program's own errors."""
        if not self.base and self.spent > self.seconds / 10:
            self.base = memory_mib()
        self.count += 1
        began = time.thread_time()
        try:
            self.part(value)
        except (VerdictError, ExpressionError):
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            self.failed += 1
            if self.failed <= 5:
                said = f"{self.name}: {type(fault).__name__}: {str(fault)[:200]}"
                print(f"{said}\n    {value!r:.600}", flush=True)
        took = time.thread_time() - began
        if took > self.slowest:
            self.slowest, self.worst = took, value

    def held(self) -> bool:
        """Whether the part held; prints its line."""
        grew = memory_mib() - (self.base or memory_mib())
        said = f"{self.spent:.0f} s | {self.count:,} | {self.failed} | {self.slowest:.2f} s | {grew:+.0f} MiB"
        print(f"| {self.name} | {said} |", flush=True)
        if self.slowest > SLOWEST_S:
            print(f"    slowest: {self.worst!r:.600}")
        return not self.failed and self.slowest <= SLOWEST_S


def fuzz(name: str, seconds: float) -> bool:
    """Whether the part held under what hypothesis makes up."""
    watch = Watch(name, seconds)
    turn = 0
    while not watch.over:
        turn += 1

        @seed(turn)
        @settings(
            max_examples=200,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(PARTS[name][1])
        def turned(value: Any) -> None:
            if not watch.over:
                watch.give(value)

        turned()
    return watch.held()


def guided(name: str, seconds: float) -> bool:
    """Whether the part held under what atheris makes up, in a process of its own."""
    script = Path(__file__).with_name("fuzz_guided.py")
    return subprocess.run([sys.executable, script, name, str(seconds)], check=False).returncode == 0


def main() -> None:
    """Runs the parts one after another."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    chosen = parser.parse_args()
    if chosen.guided and find_spec("atheris") is None:
        parser.error("--guided needs atheris: pip install atheris")
    warnings.simplefilter("ignore", HypothesisWarning)
    random.seed(0)
    print(
        "| part | time | examples | failures | slowest example (CPU) | memory |\n|---|---|---|---|---|---|",
        flush=True,
    )
    run = guided if chosen.guided else fuzz
    held = [run(name, chosen.seconds) for name in chosen.parts or PARTS]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
