"""CONTRIBUTING.md describes the packages as they are, and leads from a key to its code."""

import re
import tomllib

import pytest
from paths import ROOT

PACKAGE = ROOT / "verdict_cli"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
KEYS = re.findall(
    r"^\| `(\w+)` [^|]*\| `([^`]+)` \| `([^`]+)` \|$",
    SECTIONS["From a key to its code"],
    re.MULTILINE,
)


def test_the_picture_has_every_layer_in_its_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = [layer.partition(" ")[0] for layer in contracts[0]["layers"]]
    assert re.findall(r"^  (\w+)(?:/|\.py) ", SECTIONS["The packages"], re.MULTILINE) == layers


def test_every_folder_of_the_picture_exists():
    for package, text in re.findall(r"^  (\w+)/ (.*)$", SECTIONS["The packages"], re.MULTILINE):
        for inner in re.findall(r"(\w+)/", text):
            assert (PACKAGE / package / inner).is_dir(), f"{package}/{inner}"


def test_a_row_s_path_has_ten_steps():
    assert re.findall(r"^(\d+)\. ", SECTIONS["A row's path"], re.MULTILINE) == [
        str(step) for step in range(1, 11)
    ]


def test_every_path_that_is_named_exists():
    paths = re.findall(r"`((?:verdict_cli|tests|docs|configs|datasets)/[\w./]*)`", PAGE)
    assert len(paths) > 20
    assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("key", "declared", "used"), KEYS, ids=[key for key, _, _ in KEYS])
def test_a_key_leads_to_its_code_in_two_hops(key, declared, used):
    assert re.search(
        rf"^    (?:{key}: |.*alias=\"{key}\")",
        (PACKAGE / declared).read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert re.search(rf"\b{key}\b", (PACKAGE / used).read_text(encoding="utf-8"))


def test_ten_keys_are_tried():
    assert len(KEYS) == 10
