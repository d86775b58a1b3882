"""What a report says of the models that answered, and of their prompt cache."""

from __future__ import annotations

from verdict_cli.report.formatting import money, visible_text
from verdict_cli.run_facts import RunFacts


def version_notices(run: RunFacts) -> list[str]:
    """A warning for each model of the pipeline of which several versions answered."""
    return [
        f"{visible_text(model, 60)} was answered by {len(served)} versions of the model: "
        + ", ".join(f"{visible_text(name, 60)} ({count:,})" for name, count in served.items())
        for model, served in run.served.items()
        if len(served) > 1
    ]


def changed_versions(a: RunFacts, b: RunFacts) -> list[str]:
    """A warning for each model that both runs called, and of which other versions answered in one than in the other."""
    return [
        f"{visible_text(model, 60)} was answered by {_names(a, model)} in a, and by {_names(b, model)} in b"
        for model in a.served
        if model in b.served and a.served[model].keys() != b.served[model].keys()
    ]


def _names(run: RunFacts, model: str) -> str:
    return ", ".join(visible_text(name, 60) for name in run.served[model])


def prompt_cache_facts(run: RunFacts) -> list[tuple[str, str]]:
    """The share of the prompt tokens that came from providers' caches and what that saved; none where none did."""
    if not run.cached_tokens or not run.prompt_tokens:
        return []
    share = cached_share(run.cached_tokens, run.prompt_tokens)
    saved = run.cache_saved_usd
    cost = (
        "saved an unknown sum" if saved is None else f"saved {money(saved)}" if saved >= 0 else f"cost {money(-saved)}"
    )
    return [("prompt cache", f"{share} of the prompt tokens came from the provider's cache, {cost}")]


def cached_share(cached: int, prompt: int) -> str:
    """Cached tokens as a share of the prompt's, `–` without a prompt."""
    return f"{cached / prompt:.0%}" if prompt else "–"
