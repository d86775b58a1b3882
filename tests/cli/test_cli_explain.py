"""`verdict explain`, `--help` and completion: what the terminal says of the language and of the commands."""

from __future__ import annotations

import re
from typing import Any

import pytest
from paths import ROOT
from shell import needs

from verdict_cli.cli.app import COMMANDS, main
from verdict_cli.errors import EXITS
from verdict_cli.language.metric_registry import METRICS
from verdict_cli.language.reference import entries


def test_every_unit_scale_and_extractor_is_explained_with_its_keys_and_an_example(
    shell,
):
    for part in entries().values():
        document = shell("explain", part.name, "--json").json()
        assert (document["name"], document["text"]) == (part.name, part.text)
        assert {key["name"] for key in (*document["keys"], *document["shared_keys"])} >= {
            key.name for key in part.own()
        }
        if part.group != "mapping":
            assert part.example is not None, part.name
            assert part.example.text.splitlines()[-1] in shell("explain", part.name).out


def test_every_value_and_exit_code_is_explained(shell):
    for name, text in (
        *((name, metric.meaning) for name, metric in ((name, METRICS[name]) for name in METRICS)),
        *((str(code), text) for code, text in EXITS.items()),
    ):
        assert text in " ".join(shell("explain", name).out.split())


def test_the_page_has_the_same_exit_codes():
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert {
        int(code): text for code, text in re.findall(r"^\| (\d+) \| (.*) \|$", page, re.M)
    } == EXITS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("JudgeUnit.scale", "The scale that a judge's values are on."),
        ("explanation", "Asks for a text `explanation` before the judgement."),
        ("JUDGEUNIT", "JudgeUnit (unit)"),
    ],
)
def test_keys_and_other_spellings_are_found(name, text, shell):
    assert text in shell("explain", name).out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("JugdeUnit", "did you mean 'JudgeUnit'?"),
        ("JudgeUnit.scael", "did you mean 'scale'?"),
        ("explanaton", "did you mean 'explanation'?"),
        ("999", "verdict explain lists every name"),
    ],
)
def test_an_unknown_name_has_its_nearest(name, text, shell):
    done = shell("explain", name)
    assert done.code == 2
    assert text in done.err


def test_without_a_name_everything_is_listed(shell):
    listed = shell("explain").out
    assert all(part in listed for part in entries())


@pytest.mark.parametrize("of", ["bash", "zsh", "fish"])
def test_completion_names_commands_and_options(of, shell, monkeypatch, capsys):
    monkeypatch.setenv("_VERDICT_COMPLETE", f"complete_{of}")
    for typed, offered in (("verdict va", "validate"), ("verdict run --retry", "--retry-failed")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        capsys.readouterr()
        assert offered in shell().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("verdict explain Judge", "JudgeUnit"),
        ("verdict explain cohen", "cohen_kappa"),
        ("verdict run xs", "xstest"),
        ("verdict run mi", "mine.yaml"),
        ("verdict run mine.yaml xs", "xstest_sample"),
        ("verdict run mine.yaml x --model base", "baseline/lexical"),
        pytest.param("verdict bench wi", "wice", marks=needs("benchmarks")),
        pytest.param("verdict sweep a b --metric acc", "accuracy", marks=needs("sweep")),
    ],
)
def test_completion_offers_values(
    typed,
    offered,
    shell,
    monkeypatch,
    capsys,
):
    shell.write("mine.yaml", "")
    monkeypatch.setenv("_VERDICT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    capsys.readouterr()
    assert offered in shell().out.splitlines()


@pytest.mark.parametrize(("completing", "printed"), [(True, ""), (False, "verdict: interrupted\n")])
def test_ctrl_c_while_completing_prints_nothing(
    completing,
    printed,
    monkeypatch,
    capsys,
):
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("verdict_cli.cli.app.app", interrupted)
    if completing:
        monkeypatch.setenv("_VERDICT_COMPLETE", "complete_bash")
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, printed)


def test_the_list_of_commands_is_whole(shell):
    listed = shell("--help").out
    assert all(
        re.search(rf"^  ([a-z]+, )*{name}[, ]", listed, re.MULTILINE) for name in COMMANDS.names()
    )
