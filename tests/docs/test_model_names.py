"""What a newcomer copies names models that the price data knows and that their providers still serve."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from paths import ROOT

from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.model_checks import retirement_date
from verdict_cli.llm.providers.price_book import entry_of
from verdict_cli.model import Model

AS_PRINTED = {
    "configs/paper/figure4_jury.yaml": {
        "cohere/command-r",
        "cohere/command-r-plus",
        "anthropic/claude-3-5-sonnet-20241022",
    }
}
"""Names that a paper prints; the file's head has the `--set` line with current ones."""
FILES = [
    *(
        path
        for path in ROOT.glob("configs/**/*.yaml")
        if path.parts[-2] not in ("reproductions", "published")
    ),
    *(path for path in ROOT.glob("docs/**/*.md") if path.name != "reproductions.md"),
    *(ROOT / "verdict_cli").rglob("*.py"),
    *(ROOT / "examples").iterdir(),
    *(ROOT / "benchmarks").glob("*.py"),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "action.yml",
    ROOT / "schemas" / "pipeline.schema.json",
]
"""Not the configs of reproductions: they replay the calls of models that are gone. `configs/published` has values only."""
HOSTED = "anthropic|azure|bedrock|cerebras|cohere|deepinfra|deepseek|fireworks_ai|gemini|groq|mistral|openrouter|perplexity|together_ai|vertex_ai|xai"
PREFIXED = re.compile(rf"(?<![\w./-])(?:{HOSTED})/[\w.:/-]*[\w]")
BARE = r"(?:gpt|claude|gemini|command|o\d)(?:-[\w.-]*\w)?"
NAMED = re.compile(rf"(?:--model[= ]|model: |\bname: )[\"'`]?({BARE})(?![\w/])")
LISTED = re.compile(r"models[:=] ?\[([^\]]*)\]")
PLACEHOLDER = re.compile(r"/(NAME|DEPLOYMENT|[A-Z]+)$|/v1|/my-|/my_")


def names_in(text: str) -> set[str]:
    """The names of hosted models in a text."""
    listed = (name.strip(" '\"") for match in LISTED.findall(text) for name in match.split(","))
    names = {
        *PREFIXED.findall(text),
        *NAMED.findall(text),
        *(name for name in listed if re.fullmatch(BARE, name)),
    }
    return {name for name in names if not PLACEHOLDER.search(name) and not is_local(name)}


def test_names_are_found_in_what_files_have():
    text = "models: [gpt-4o, claude-x]\nmodel: gpt-1\n`--model o9` {name: gemini-0, a: 1} anthropic/b-1. anthropic/NAME"
    assert names_in(text) == {"gpt-4o", "claude-x", "gpt-1", "o9", "gemini-0", "anthropic/b-1"}


def named_models() -> dict[str, set[str]]:
    """Each model that is named, and the files that name it."""
    places: dict[str, set[str]] = {}
    for path in FILES:
        place = str(path.relative_to(ROOT))
        for name in names_in(path.read_text(encoding="utf-8")) - AS_PRINTED.get(place, set()):
            places.setdefault(name, set()).add(place)
    return places


def test_every_model_that_is_named_is_known():
    models = named_models()
    assert {"gpt-4o-mini", "anthropic/claude-haiku-4-5"} <= models.keys()
    assert {name: places for name, places in models.items() if entry_of(name) is None} == {}


def test_no_model_that_is_named_is_retired():
    today = datetime.now(UTC).date()
    retired = {name: retirement_date(Model(name=name)) for name in named_models()}
    assert {name: day for name, day in retired.items() if day is not None and day < today} == {}
