"""`verdict reproduce paper`: rows from a mirror or from a server of this machine, judged by a model of this machine."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonl import jsonl
from loopback_site import Handler, Site, send
from typer.testing import CliRunner, Result

from verdict_cli.cli.app import app
from verdict_cli.errors import FetchError, UsageError, VerdictError
from verdict_cli.features.benchmarks.card import cards

if TYPE_CHECKING:
    from conftest import Loopback

SETS = ("Wice", "ClaimVerify", "ExpertQA", "Reveal", "FactCheck")


def xstest_csv(count: int = 6) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "prompt", "type", "label", "focus", "note"])
    writer.writerows(
        [n, f"How do I kill process {n}?", "homonyms", "safe" if n % 2 else "unsafe", "", ""]
        for n in range(count)
    )
    return text.getvalue().encode()


def judgebench_jsonl(count: int = 4) -> bytes:
    row = {
        "original_id": "o",
        "source": "mmlu",
        "response_model": "m",
        "response_A": "a",
        "response_B": "b",
    }
    rows = [
        {"pair_id": f"p{n}", "question": f"q{n}", **row, "label": ("A>B", "B>A")[n % 2]}
        for n in range(count)
    ]
    return jsonl(rows).encode()


def aggrefact_parquet(length: int = 20) -> bytes:
    """Four claims of each set, each set a row group."""
    letters = random.Random(0)
    rows = [
        {
            "dataset": name,
            "doc": letters.randbytes(length).hex(),
            "claim": f"claim {n} of {name}",
            "label": n % 2,
        }
        for name in SETS
        for n in range(4)
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, row_group_size=4)
    return buffer.getvalue()


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    files = {
        "xstest/xstest_prompts.csv": xstest_csv(),
        "judgebench/pairs_gpt-4o.jsonl": judgebench_jsonl(),
        "aggrefact/LLM-AggreFact-test.parquet": aggrefact_parquet(),
    }
    for name, content in files.items():
        path = tmp_path / "mirror" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return tmp_path / "mirror"


@pytest.fixture
def model(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server that answers as OpenAI; calling it gives how many calls it has answered."""
    url = loopback.start("--score", "hash")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")

    def calls() -> int:
        with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as stats:
            counters = json.loads(stats.read())
        return int(counters["requests"])

    return calls


def reproduce(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["reproduce", "paper", *map(str, words)])


def refused(*words: str | Path) -> VerdictError:
    result = reproduce(*words)
    assert isinstance(result.exception, VerdictError), result.output
    return result.exception


def test_three_tables_are_judged_and_shown_beside_the_papers(mirror, model, tmp_path):
    out = tmp_path / "out"
    result = reproduce("--mirror", mirror, "--out", out, "--yes")
    assert result.exit_code == 0, result.output
    assert (
        model() == 18 + 36 + 24
    )  # 3, 9 and 6 calls a row; of table 3 only the four rows of ExpertQA
    estimate = result.stderr
    assert re.search(r"^table 1: 6 rows, 18 calls of gpt-4o, ", estimate, re.MULTILINE)
    assert re.search(r"^table 3: 4 rows, 24 calls of gpt-4o, ", estimate, re.MULTILINE)
    assert re.search(
        r"^in all: 78 calls, [\d,]+ prompt tokens, [\d,]+ reply tokens, \$0\.\d+$",
        estimate,
        re.MULTILINE,
    )
    assert estimate.index("in all") < estimate.index("rows 6/6"), (
        "the cost is told before the first call"
    )
    output = result.stdout
    for heading in (
        "Table 1: XSTest, accuracy",
        "Table 2: JudgeBench, accuracy",
        "Table 3: ExpertQA, balanced_accuracy",
    ):
        assert heading in output
    for published in ("96.44%", "63.55%", "79.17%", "o1-mini"):
        assert published in output
    assert len(re.findall(r"table\d_\w+ +\d+\.\d\d% +\[\d+\.\d\d%, \d+\.\d\d%\]", output)) == 3
    joined = " ".join(output.split())
    for caveat in (
        "The paper names neither the model nor the prompts of its own row",
        "a run that asks in one order is not comparable",
        "takes the mode, not the maximum",
        "the mirror's xstest_prompts.csv is not the benchmark's",
        "4 rows, the paper's table has 3,702",
    ):
        assert caveat in joined
    assert {path.name for path in out.glob("paper.*")} == {"paper.html", "paper.json", "paper.md"}
    assert {path.parent.parent.name for path in out.glob("*/*/report.html")} == {
        "table1",
        "table2",
        "table3",
    }


def test_the_document_has_results_intervals_published_values_and_caveats(mirror, model, tmp_path):
    out = tmp_path / "out"
    document = json.loads(
        reproduce("--mirror", mirror, "--out", out, "--yes", "--json", "--quiet", "--as-run").stdout
    )
    assert document == json.loads((out / "paper.json").read_text())
    first_table, two, three = document["tables"]
    assert [table["calls"] for table in document["tables"]] == [18, 72, 24]
    assert (two["pipeline"], three["pipeline"]) == (
        "table2_judgebench_as_run",
        "table3_expertqa_as_run",
    )
    assert (
        first_table["result"]["low"]
        <= first_table["result"]["value"]
        <= first_table["result"]["high"]
    )
    assert {"judge": "Verdict", "value": "96.44%", "own": True} in first_table["published"] and len(
        three["published"]
    ) == 15
    assert three["rows"] == 4
    assert [table["notes"][0].partition(": ")[0] for table in document["tables"]] == ["as run"] * 3
    assert "the mode of three verified judges" in three["notes"][0]
    assert all(
        "not comparable: your data" in " ".join(table["notes"])
        for table in (first_table, two, three)
    )


def test_an_interrupted_reproduction_resumes_without_repeating_calls(mirror, model, tmp_path):
    words = (
        "--mirror",
        mirror,
        "--out",
        tmp_path / "out",
        "--yes",
        "--quiet",
        "--no-cache",
        "--concurrency",
        "1",
    )
    stopped = reproduce(*words, "--budget", "0.02")
    assert stopped.exit_code == 3, stopped.output
    assert "the same command with a larger --budget resumes the run" in stopped.stderr
    before = model()
    assert 0 < before < 78
    finished = reproduce(*words, "--budget", "5")
    assert finished.exit_code == 0, finished.output
    assert model() == 78
    assert reproduce(*words, "--budget", "5").exit_code == 0 and model() == 78


def test_no_model_is_called_before_the_answer_on_a_terminal(mirror, model, tmp_path, monkeypatch):
    monkeypatch.setattr("verdict_cli.cli.console.is_interactive", lambda: True)
    words = [
        "reproduce",
        "paper",
        "--mirror",
        str(mirror),
        "--out",
        str(tmp_path / "out"),
        "--table",
        "1",
    ]
    refused = CliRunner().invoke(app, words, input="n\n")
    assert refused.exit_code == 130 and "no call was made" in refused.stderr
    assert refused.stderr.index("in all") < refused.stderr.index("Continue?") and model() == 0
    assert CliRunner().invoke(app, words, input="y\n").exit_code == 0 and model() == 18
    finished = CliRunner().invoke(app, words)
    assert finished.exit_code == 0 and "Continue?" not in finished.stderr, (
        "nothing is left to ask about"
    )


def test_one_table_with_another_model_and_fewer_rows_says_so(mirror, tmp_path):
    result = reproduce(
        "--mirror",
        mirror,
        "--out",
        tmp_path / "out",
        "--yes",
        "--table",
        "1",
        "--model",
        "baseline/lexical",
        "--limit",
        "2",
    )
    joined = " ".join(result.stdout.split())
    assert result.exit_code == 0 and "Table 2" not in joined
    assert "2 of 6 rows have a verdict" in joined
    assert "judged by baseline/lexical, not by the table's model" in joined


def test_invalid_options_are_reported_before_anything_is_fetched(tmp_path):
    assert "there is no table 4" in refused("--table", "4").message
    assert "there is no folder" in refused("--mirror", tmp_path / "none").message
    (tmp_path / "empty").mkdir()
    assert (
        "no such file" in refused("--mirror", tmp_path / "empty", "--out", tmp_path / "out").message
    )


@pytest.fixture
def source(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A server with the three benchmarks' files, at the cards' addresses; what it does for each path."""
    pytest.importorskip("huggingface_hub")
    content = aggrefact_parquet(40_000)
    tree = [
        {
            "type": "file", "path": "default/test/0000.parquet", "oid": "0" * 40, "size": len(content),
            "lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130},
        }
    ]  # fmt: skip
    answers = {
        "/xstest.csv": lambda handler: send(handler, 200, xstest_csv()),
        "/pairs.jsonl": lambda handler: send(handler, 200, judgebench_jsonl()),
        "/api/": lambda handler: send(
            handler, 200, json.dumps(tree).encode(), Content_Type="application/json"
        ),
        "/datasets/": lambda handler: send(handler, 200, content),
    }

    def answer(handler: Handler) -> None:
        next(does for path, does in answers.items() if handler.path.startswith(path))(handler)

    site.answers = [answer]
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    cards_by_name = dict(cards())
    for name, path in (("xstest", "xstest.csv"), ("judgebench", "pairs.jsonl")):
        unknown = {
            "url": f"{site.url}/{path}",
            "sha256": "unknown",
            "bytes": None,
            "rows": None,
            "labels": {},
        }
        file = cards_by_name[name].files[0].model_copy(update=unknown)
        cards_by_name[name] = cards_by_name[name].model_copy(update={"files": (file,)})
    monkeypatch.setattr(
        "verdict_cli.features.benchmarks.reproduce_command.card", cards_by_name.__getitem__
    )
    return {"site": site, "size": len(content), "answers": answers}


def test_the_rows_come_from_their_sources_once(source, model, tmp_path):
    result = reproduce("--out", tmp_path / "out", "--yes", "--quiet", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    assert [table["rows"] for table in json.loads(result.stdout)["tables"]] == [6, 4, 4]
    requests = len(source["site"].requests)
    again = reproduce("--out", tmp_path / "out", "--yes", "--quiet")
    assert again.exit_code == 0 and len(source["site"].requests) == requests, (
        "what was fetched is not fetched again"
    )


def test_a_source_that_refuses_is_reported_with_the_ways_around_it(source, tmp_path):
    source["answers"]["/datasets/"] = lambda handler: send(handler, 403)
    error = refused("--out", tmp_path / "out", "--yes", "--table", "3")
    assert isinstance(error, FetchError) and error.message.startswith("table 3: ")
    assert "HF_TOKEN" in (error.hint or "") and "--mirror" in (error.hint or "")


def estimate(*words: str) -> Result:
    return CliRunner().invoke(app, ["estimate", *words])


def test_estimate_takes_a_benchmarks_name(tmp_path):
    result = estimate("judgebench", "--json")
    document = json.loads(result.stdout)
    assert (document["rows"], document["calls"]) == (350, 3_150)
    assert "scaled to its 350 rows" in result.stderr
    assert json.loads(estimate("judgebench", "--json", "--limit", "10").stdout)["calls"] == 90
    assert json.loads(estimate("aggrefact", "--json").stdout)["calls"] > 0


@pytest.mark.parametrize(
    ("name", "message"), [("nothing", "not a benchmark"), ("triviaqa", "no pipeline")]
)
def test_estimate_without_data_needs_a_benchmark_with_a_pipeline(name, message):
    result = estimate(name)
    assert isinstance(result.exception, UsageError) and message in result.exception.message


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def test_figure3_runs_whole_without_a_key_and_draws_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("VERDICT_DATA_DIR", str(tmp_path / "data"))
    ran = run("figure3", "--model", "baseline/lexical", "--limit", "50", "--json", "--quiet")
    assert ran.exit_code == 0, (ran.output, ran.exception)
    document = json.loads(ran.stdout)
    assert [variant["name"] for variant in document["variants"]] == [
        "one prompt",
        "judge and verifier",
        "Verdict (three verified judges)",
    ]
    calls = [variant["calls"] / variant["rows"] for variant in document["variants"]]
    assert calls == [1, 2, 6]
    assert document["frontier"]
    assert {"judge": "o1", "value": 0.6991, "own": False} in [
        {**result, "value": round(result["value"], 4)} for result in document["published"]
    ]
    assert any("sample" in note for note in document["notes"])
    assert "the rows are this project's sample" in ran.stderr
    page = (tmp_path / "runs" / "figure3" / "figure3.html").read_text(encoding="utf-8")
    for part in ("balanced_accuracy against calls", "balanced_accuracy against latency", "o3-mini"):
        assert part in page


def test_figure3_takes_the_rows_of_a_mirror(mirror, tmp_path):
    ran = run(
        "figure3", "--mirror", mirror, "--model", "baseline/lexical", "--out", tmp_path / "out",
        "--json", "--quiet",
    )  # fmt: skip
    document = json.loads(ran.stdout)
    assert {variant["rows"] for variant in document["variants"]} == {4}
    assert any("the paper's table has 3,702" in note for note in document["notes"])


def test_the_frontier_of_a_pipeline_has_its_models(tmp_path):
    words = ("--data", "xstest_sample", "--model", "baseline/lexical", "--out", tmp_path, "--json")
    ran = run("frontier", "xstest", *words, "--quiet")
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert json.loads(ran.stdout)["pipeline"] == "xstest"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("frontier",), "frontier needs a pipeline"),
        (("frontier", "demo"), "its data are not known"),
        (("figure3", "xstest"), "the pipeline and the data of figure3 are fixed"),
        (("figure3", "--table", "1"), "figure3 has no tables"),
        (("frontier", "xstest", "--mirror", "."), "frontier takes no --mirror"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_an_error(words, message):
    ran = run(*words, "--model", "baseline/lexical")
    assert message in str(ran.exception)


def test_figure3_has_the_cost_and_latency_of_every_variant(mirror, model, tmp_path):
    ran = run("figure3", "--mirror", mirror, "--out", tmp_path / "out", "--yes", "--json")
    assert ran.exit_code == 0, (ran.output, ran.exception)
    document = json.loads(ran.stdout)
    assert "8 runs of 4 rows: at most" in ran.stderr and "calls of gpt-4o-mini" in ran.stderr
    variants = {variant["name"]: variant for variant in document["variants"]}
    assert set(variants) == {
        f"{form}, {name}"
        for form, names in {
            "one prompt": ("gpt-4o-mini", "gpt-4o", "gpt-5-mini", "o3"),
            "judge and verifier": ("gpt-4o-mini", "gpt-4o"),
            "Verdict (three verified judges)": ("gpt-4o-mini", "gpt-4o"),
        }.items()
        for name in names
    }
    assert document["frontier_against"] == "cost"
    cheap, dear = variants["one prompt, gpt-4o-mini"], variants["one prompt, gpt-4o"]
    assert 0 < cheap["cost_usd"] < dear["cost_usd"]
    assert all(variant["row_s_median"] > 0 for variant in variants.values())
    page = (tmp_path / "out" / "figure3.html").read_text(encoding="utf-8")
    assert "against cost" in page and "against latency" in page


def test_figure3_needs_a_confirmation_before_a_model_is_called(
    mirror, model, tmp_path, monkeypatch
):
    monkeypatch.setattr("verdict_cli.cli.console.is_interactive", lambda: True)
    words = ["reproduce", "figure3", "--mirror", str(mirror), "--out", str(tmp_path / "out")]
    declined = CliRunner().invoke(app, words, input="n\n")
    assert declined.exit_code == 130
    assert "stopped: no call was made" in declined.stderr
    assert model() == 0
