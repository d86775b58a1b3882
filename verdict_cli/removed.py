"""What this release no longer has, with what to use instead: one table."""

from __future__ import annotations

from collections.abc import Sequence

_WRITE_JUDGE = "write the judge in YAML, see docs/recipes.md; logs are still read: verdict import"
COMMAND_LINES = {
    "extract": "write the other extractor into the pipeline, then: verdict run NEW.yaml DATA --replay RUN",
    "watch": "judge the frozen rows on a schedule, with a gate that has baseline: in the pipeline: verdict run CONFIG DATA",
    "datasets rebuild": "run the script of a checkout of the repository: python benchmarks/rebuild_recordings.py DIR",
    "run --update": "judge it in another directory by the same replies: verdict run NEW.yaml DATA --out NEW --reuse RUN",
    "run --part-rows": "leave it out: run.db holds a run of any size, and each table is one file",
    "estimate --pilot": "judge a sample, which also prints the cost of all rows: verdict run CONFIG DATA --sample 20",
    "rank --after": "leave it out: verdict rank --systems --battles N writes as many battles of each pair",
    "serve --state": "leave it out: a request waits for its rows; verdict run keeps and resumes what takes long",
    "serve --protocol": "take a reward function of verdict_cli.rl: docs/serving.md",
    "serve --criterion": "take verdict_cli.rl.trl_rewards: docs/serving.md",
    "serve --reward": "take verdict_cli.Judge(…, reward=EXPR).reward(rows): docs/python.md",
    "export --to mlflow": 'log the table of the run: mlflow.log_table(verdict_cli.load_run("RUN").to_pandas(), "scores.json")',
    "export --endpoint": "send each line of the file: verdict export RUN --to otlp; or trace the run: verdict run --trace",
    "init --from promptfoo": _WRITE_JUDGE,
    "init --from deepeval": _WRITE_JUDGE,
}
"""Commands, and options behind their command. docs/removed.md says the same to a reader."""

KEYS = {
    "samples": "it was removed: leave it out. A reply with open probability is unreadable; a scale of letters has none",
}
"""Keys of a pipeline file."""

MODEL_PREFIX = "local/"
MODEL_REPLACEMENT = (
    "start `llama-server -m FILE.gguf`, then write "
    '`model: {name: openai/NAME, api_base: "http://127.0.0.1:8080/v1"}`; Ollama and vLLM work alike'
)
"""Models that ran in this process, and what runs them now."""


def removed_from(words: Sequence[str]) -> tuple[str, str] | None:
    """What a command line names that is gone, and what to use instead."""
    names = [part for word in words for part in word.split("=", 1)]
    for line, replacement in COMMAND_LINES.items():
        command, *options = line.split()
        if names[:1] == [command] and all(part in names for part in options):
            return line, replacement
    return None
