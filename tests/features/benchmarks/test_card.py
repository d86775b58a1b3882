"""Every data card is whole, and what is wrong with one is told at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.features.benchmarks.card import UNKNOWN, cards, read_card
from verdict_cli.features.benchmarks.importers import IMPORTERS
from verdict_cli.features.benchmarks.recorded import SETS
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, folder, named_config
from verdict_cli.plan.build import load_plan

CARD = """\
name: mine
title: Mine
about: Is it mine?
paper: "Nobody, 2020"
source: https://example.org/mine
licence: MIT
files:
  - {name: a.csv, url: "https://example.org/a.csv", sha256: unknown}
"""
NAMED = {"xstest", "judgebench", "aggrefact", "expertqa", "summeval", "llmbar", "realmistake", "wice", "pandalm"} | {
    "halueval", "mtbench", "rewardbench", "alpacaeval",
}  # fmt: skip


def test_the_benchmarks_are_there() -> None:
    assert cards().keys() >= NAMED | SETS.keys()


@pytest.mark.parametrize("name", cards())
def test_a_card_with_a_pipeline_can_be_imported_and_its_settings_fit(name: str) -> None:
    card = cards()[name]
    if card.config is None:
        assert name in SETS
        return
    assert name in IMPORTERS and card.sample is not None
    path = named_config(card.config)
    assert load_plan(
        apply_override(read_document(path), card.settings), path.parent
    ).plan.evaluations


@pytest.mark.parametrize("name", cards())
def test_its_sample_has_the_columns_of_its_pipeline(name: str) -> None:
    card = cards()[name]
    if card.config is None or card.sample is None:
        pytest.skip("nothing to judge")
    path = named_config(card.config)
    used = {column.column for column in load_plan(read_document(path), path.parent).plan.columns}
    lines = (folder("datasets") / card.sample).read_text(encoding="utf-8").splitlines()
    assert all(used <= json.loads(line).keys() for line in lines)


def test_a_checksum_is_known_of_every_file_of_which_a_size_is() -> None:
    for card in cards().values():
        for file in card.files:
            assert (file.sha256 == UNKNOWN) == (file.bytes is None), file.name


@pytest.mark.parametrize(
    "path", sorted(folder("datasets").glob("*.card.yaml")), ids=lambda path: path.name
)
def test_what_a_card_names_is_there_and_each_file_has_one_source(path: Path) -> None:
    card = read_card(path)
    assert path.name == f"{card.name}.card.yaml"
    assert card.config is None or card.config in configs()
    assert card.sample is None or (path.parent / card.sample).is_file()
    for file in card.files:
        assert sum(source is not None for source in (file.url, file.hub, file.derived)) == 1


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("sha256: unknown", "sha256: 12ab", "sha256"),
        ("licence:", "license:", "licence"),
    ],
)
def test_what_is_wrong_with_a_card_is_reported_with_its_line(
    tmp_path: Path, was: str, now: str, message: str
) -> None:
    path = tmp_path / "mine.card.yaml"
    path.write_text(CARD, encoding="utf-8")
    assert read_card(path).name == "mine"
    path.write_text(CARD.replace(was, now), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_card(path)
    assert message in str(caught.value)
    assert f"{path}:" in str(caught.value)


def test_a_pipeline_is_found_by_its_name() -> None:
    assert named_config("reproductions/wice").name == "wice.yaml"
    assert {"xstest", "geval"} <= configs().keys()
    with pytest.raises(UsageError, match="did you mean 'xstest'"):
        named_config("xtest")
