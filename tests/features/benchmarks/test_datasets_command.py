"""`verdict datasets`: every command, on the real files and on downloads that break."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest
from loopback_site import Site, cut_off, refused, whole
from paths import SHARED
from typer.testing import CliRunner, Result

from verdict_cli.cli.app import app
from verdict_cli.features.benchmarks import card as card_module
from verdict_cli.features.benchmarks import download
from verdict_cli.features.benchmarks.card import Card, CardFile, cards
from verdict_cli.features.benchmarks.recorded import FOLDERS

SHARED = SHARED / "data"
PLACES = {**FOLDERS, "halueval": "halueval_general"}
REAL = [
    pytest.param(name, SHARED / PLACES.get(name, name) / file.name, id=f"{name}/{file.name}")
    for name, card in cards().items()
    for file in card.files
    if file.derived is not None or file.bytes is not None
]
BODY = b"id,prompt,label\n" + b"".join(
    b"%d,p,%s\n" % (n, b"safe" if n % 2 else b"unsafe") for n in range(1000)
)


def verdict(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["datasets", *map(str, words)])


def failed(*words: str | Path) -> str:
    """The error of a command that must fail."""
    result = verdict(*words)
    assert result.exception is not None and not isinstance(result.exception, SystemExit), (
        result.output
    )
    return str(result.exception)


@pytest.fixture
def mine(site: Site, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A card whose file this machine publishes, with a checksum, and one without."""

    def no_pause(_: float) -> None:
        """Waits that take no time."""

    monkeypatch.setitem(download.download.__kwdefaults__, "pause", no_pause)
    with_checksum = CardFile(
        name="a.csv",
        url=f"{site.url}/a.csv",
        sha256=hashlib.sha256(BODY).hexdigest(),
        bytes=len(BODY),
        rows=1000,
        columns=("id", "prompt", "label"),
        labels={"label": {"safe": 500, "unsafe": 500}},
    )
    unknown = with_checksum.model_copy(
        update={"name": "b.csv", "url": f"{site.url}/b.csv", "sha256": "unknown", "bytes": None}
    )
    card = Card(
        name="mine",
        title="Mine",
        about="Is it mine?",
        paper="Nobody, 2020",
        source="https://example.org/mine",
        licence="MIT",
        files=(with_checksum, unknown, CardFile(name="c.csv", derived="a copy", sha256="unknown")),
    )
    monkeypatch.setattr(card_module, "cards", lambda: {"mine": card})
    monkeypatch.setattr(
        "verdict_cli.features.benchmarks.datasets_command.cards", lambda: {"mine": card}
    )
    return card


def test_the_list_has_every_card_and_says_what_is_here(tmp_path):
    result = verdict("list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in cards())
    listed = json.loads(verdict("list", "--json").stdout)
    assert [dataset["name"] for dataset in listed] == list(cards())
    assert {dataset["fetched"] for dataset in listed} == {None}


def test_a_card_says_what_is_unknown():
    output = verdict("info", "wice").stdout
    assert "5b05117f5146aa1b14ca443184f76a3a528249cfdae40ca9047c025fdeca2134" in output
    assert "sha256    unknown" in output and "219 partially_supported" in output
    assert json.loads(verdict("info", "wice", "--json").stdout)["licence"] == "ODC-BY"


@pytest.mark.parametrize(
    "words", [("info",), ("fetch",), ("check", __file__), ("import", __file__)]
)
def test_an_unknown_benchmark_is_reported_with_the_nearest(words):
    command, *arguments = words
    assert "did you mean 'xstest'?" in failed(command, "xtest", *arguments)


@pytest.mark.parametrize(("name", "path"), REAL)
def test_a_real_file_is_what_its_card_says(name, path):
    if not path.exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")
    result = verdict("check", name, path)
    assert result.exit_code == 0, result.output
    assert "✓ SHA-256" in result.stdout and "✗" not in result.stdout


@pytest.mark.parametrize(
    ("spoil", "finding"),
    [
        (lambda rows: rows[:-1], "rows: 449; the card says 450"),
        (
            lambda rows: [{**row, "label": "safe"} for row in rows],
            "labels of label: 450 safe; the card says",
        ),
        (
            lambda rows: [{k: v for k, v in row.items() if k != "note"} for row in rows],
            "columns: note missing",
        ),
    ],
)
def test_a_real_file_that_was_spoilt_is_detected(tmp_path, spoil, finding):
    real = SHARED / "xstest" / "xstest_prompts.csv"
    if not real.exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")
    with real.open(encoding="utf-8", newline="") as stream:
        rows = spoil(list(csv.DictReader(stream)))
    path = tmp_path / "xstest_prompts.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    result = verdict("check", "xstest", path)
    assert result.exit_code == 2
    assert f"✗ {finding}" in result.stdout and "✗ SHA-256" in result.stdout
    document = json.loads(verdict("check", "xstest", path, "--json").stdout)
    assert document["file"] == "xstest_prompts.csv"
    assert "differs" in {finding["verdict"] for finding in document["findings"]}


def test_a_renamed_file_is_known_by_its_columns_and_a_foreign_one_is_reported(
    tmp_path,
):
    path = tmp_path / "renamed.jsonl"
    path.write_text('{"pair_id": "1", "games": []}\n', encoding="utf-8")
    assert (
        "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl of judgebench"
        in verdict("check", "judgebench", path).stdout
    )
    assert "is not a file of xstest: its columns are games, pair_id" in failed(
        "check", "xstest", path
    )


def test_a_sample_is_drawn_with_its_seed_and_keeps_the_order(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(BODY)
    drawn = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        out = tmp_path / f"{name}.jsonl"
        assert (
            verdict("sample", path, "--rows", "20", "--seed", str(seed), "--out", out).exit_code
            == 0
        )
        drawn.append(
            [int(json.loads(line)["id"]) for line in out.read_text(encoding="utf-8").splitlines()]
        )
    assert len(set(drawn[0])) == 20 and drawn[0] == sorted(drawn[0])
    assert drawn[0] == drawn[1] != drawn[2]
    assert "is the dataset" in failed(
        "sample", tmp_path / "one.jsonl", "--out", tmp_path / "one.jsonl"
    )


def test_a_fetched_file_is_checked_and_found_by_bench(mine, site, tmp_path):
    site.answers = [cut_off(BODY, 5_000), whole(BODY)]
    result = verdict("fetch", "mine")
    assert result.exit_code == 0, result.output
    path = Path(result.stdout.strip())
    assert path == tmp_path / "home" / "mine" / "a.csv"
    assert path.read_bytes() == BODY
    assert "SHA-256 as expected" in result.stderr
    assert json.loads(verdict("list", "--json").stdout)[0]["fetched"] == str(path)
    assert verdict("check", "mine", path).exit_code == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (cut_off(BODY, 5_000), "5,000 of"),
        (whole(b"<html></html>", Content_Type="text/html"), "returns a web page"),
        (whole(BODY.replace(b"unsafe", b"sAfe")), "is not the expected file"),
        (refused(404), "does not have it"),
    ],
)
def test_a_broken_download_leaves_no_file(mine, site, tmp_path, answer, message):
    site.answers = [answer]
    assert message in failed("fetch", "mine", "--out", tmp_path / "out")
    assert not (tmp_path / "out" / "a.csv").exists()


def test_without_a_checksum_the_content_is_compared_with_the_card(mine, site, tmp_path):
    site.answers = [whole(BODY)]
    result = verdict("fetch", "mine", "--file", "b.csv")
    assert "nothing proves that this is the file" in result.stderr
    for body, message in (
        (BODY[: len(BODY) // 2], "rows: 504"),
        (b"colour\nred\n", "columns: id, prompt, label missing"),
        (b"\xff\xfe\x00", "is not a readable b.csv"),
    ):
        site.answers = [whole(body)]
        assert message in failed("fetch", "mine", "--file", "b.csv", "--out", tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []


def test_a_checksum_of_the_user_is_enforced(mine, site, tmp_path):
    site.answers = [whole(BODY)]
    right, wrong = hashlib.sha256(BODY).hexdigest(), "0" * 64
    assert verdict("fetch", "mine", "--file", "b.csv", "--sha256", right.upper()).exit_code == 0
    assert right in failed(
        "fetch", "mine", "--file", "b.csv", "--sha256", wrong, "--out", tmp_path / "out"
    )
    assert "the card gives a.csv another SHA-256" in failed("fetch", "mine", "--sha256", wrong)
    assert "is not a SHA-256" in failed("fetch", "mine", "--sha256", "12")


def test_what_has_no_address_is_reported_with_the_source(mine):
    assert "it is a copy" in failed("fetch", "mine", "--file", "c.csv")
    assert "has no file 'd.csv'" in failed("fetch", "mine", "--file", "d.csv")
    assert "verdict datasets import mine PATH" in failed("fetch", "mine", "--file", "c.csv")


def test_more_than_max_size_is_not_fetched(mine, site, tmp_path):
    site.answers = [whole(b"x" * (1 << 20) + b"x")]
    assert "--max-size" in failed("fetch", "mine", "--file", "b.csv", "--max-size", "1")
    assert download.ATTEMPTS > 1 == len(site.requests)


def test_imported_completions_bring_their_recorded_labels(tmp_path):
    real = SHARED / "xstest" / "completions_llama2orig.csv"
    if not real.exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")
    out = tmp_path / "deep" / "xstest.jsonl"
    result = verdict("import", "xstest", real, "--out", out)
    assert (result.exit_code, result.stderr.count("450 ")) == (0, 2)
    replies = out.with_name("xstest.replay.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(replies) == 450 and json.loads(replies[0])["unit"] == "judge"
    assert "no such file" in failed("import", "xstest", tmp_path / "none.csv")


def test_the_real_prompts_of_xstest_are_fetched_over_a_broken_line_and_judged(
    site, tmp_path, monkeypatch
):
    real = SHARED / "xstest" / "xstest_prompts.csv"
    if not real.exists():
        pytest.skip("the real files are not there: set VERDICT_SHARED to the folder that has data/")

    def no_pause(_: float) -> None:
        """Waits that take no time."""

    card = cards()["xstest"]
    here = card.files[0].model_copy(update={"url": f"{site.url}/xstest_prompts.csv"})
    moved = card.model_copy(update={"files": (here, *card.files[1:])})
    monkeypatch.setattr(card_module, "cards", lambda: {"xstest": moved})
    monkeypatch.setitem(download.download.__kwdefaults__, "pause", no_pause)
    body = real.read_bytes()
    site.answers = [cut_off(body, 1_000), refused(503), cut_off(body, 20_000), whole(body)]
    result = verdict("fetch", "xstest")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "SHA-256 as expected: 11783fb294ed0174" in result.stderr
    assert (
        verdict(
            "sample", result.stdout.strip(), "--rows", "5", "--out", tmp_path / "five.jsonl"
        ).exit_code
        == 0
    )
    words = [
        "bench",
        "xstest",
        "--model",
        "baseline/lexical",
        "--quiet",
        "--json",
        "--out",
        str(tmp_path / "run"),
    ]
    judged = json.loads(CliRunner().invoke(app, words).stdout)
    assert (judged["sample"], judged["rows"], judged["failed"]) == (False, 450, 0)
    assert judged["evaluations"]["safety"]["accuracy"]["n"] == 450
