"""How each file of the recordings is made from files of its repository. Rules return bytes; a checksum decides."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

Sources = Mapping[str, bytes]
"""The content of a repository's files by path, in the order in which the data file names them."""

REALMISTAKE_TASK = "answerability_classification"
WICE_ROWS = 300
"""The chunks of the first 100 claims of WiCE's test split."""


def copy(sources: Sources) -> bytes:
    """The one file as it is."""
    (content,) = sources.values()
    return content


def json_list(sources: Sources) -> bytes:
    """A JSON list as JSON lines."""
    return _lines(json.loads(copy(sources)))


def every_second_line(sources: Sources) -> bytes:
    """The first, third, fifth … object of a JSONL file."""
    return _lines(_objects(copy(sources))[::2])


def one_task(sources: Sources) -> bytes:
    """Of ReaLMistake's published values those of one task, each on a line of its own without indentation."""
    return json.dumps({REALMISTAKE_TASK: json.loads(copy(sources))[REALMISTAKE_TASK]}, indent=0).encode()


def judgebench_games(sources: Sources) -> bytes:
    """Each pair's id, and of its judgements the reply and the decision."""
    return _lines(
        {
            "pair_id": row["pair_id"],
            "games": [
                {"response": game["judgment"]["response"], "decision": game["decision"]} for game in row["judgments"]
            ],
        }
        for row in _objects(copy(sources))
    )


def wice_claims(sources: Sources) -> bytes:
    """The first chunks of evidence, numbered from 0."""
    return _lines(
        {
            "id": row["meta"]["id"],
            "chunk": chunk,
            "label": row["label"],
            "claim": row["claim"],
            "evidence": row["evidence"],
            "line_index": row["meta"]["chunk_idx"],
        }
        for chunk, row in enumerate(_objects(copy(sources))[:WICE_ROWS])
    )


def wice_replies(sources: Sources) -> bytes:
    """The replies to the first chunks; the ids are those of the chunks' own file."""
    chunks, replies = map(_objects, sources.values())
    return _lines(
        {"id": row["meta"]["id"], "chunk": chunk, "response": reply["response"]}
        for chunk, (row, reply) in enumerate(zip(chunks[:WICE_ROWS], replies[:WICE_ROWS], strict=True))
    )


def realmistake_replies(sources: Sources) -> bytes:
    """One reply of each judge to each prompt and item; the model inputs are left out, as their authors ask."""
    return _lines(
        {**_realmistake_run(path, row), "response": row["response"]["response"], "prediction": row["prediction"]}
        for path, content in sources.items()
        for row in _objects(content)
    )


def realmistake_samples(sources: Sources) -> bytes:
    """Five replies of each judge to each item, without the model inputs."""
    return _lines(
        {
            **_realmistake_run(path, row),
            "responses": [each["response"] for each in row["response"]],
            "prediction": row["prediction"],
            "predictions_list": row["predictions_list"],
        }
        for path, content in sources.items()
        for row in _objects(content)
    )


def realmistake_votes(sources: Sources) -> bytes:
    """The authors' votes over three judges and four prompts."""
    return _lines(
        {
            "id": row["metadata"]["id"],
            "responder": PurePosixPath(path).parts[-3],
            "judges": PurePosixPath(path).parts[-2],
            "prediction": row["prediction"],
            "votes_count": row["votes_count"],
        }
        for path, content in sources.items()
        for row in _objects(content)
    )


def xstest_labels(sources: Sources) -> bytes:
    """The completions with GPT-4's labels, and behind them those of string matching, joined by id."""
    judged, matched = (
        list(csv.reader(io.StringIO(content.decode("utf-8"), newline=""))) for content in sources.values()
    )
    by_id = {row[0]: row[-1] for row in matched}
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([*row, by_id[row[0]]] for row in judged)
    return text.getvalue().encode()


RULES: Mapping[str, Callable[[Sources], bytes]] = {
    rule.__name__: rule
    for rule in (
        copy, json_list, every_second_line, one_task, judgebench_games, wice_claims, wice_replies,
        realmistake_replies, realmistake_samples, realmistake_votes, xstest_labels,
    )
}  # fmt: skip
"""The rules by the name that `datasets/recordings.yaml` has for them."""


def _objects(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode("utf-8").split("\n") if line.strip()]


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _realmistake_run(path: str, row: Mapping[str, Any]) -> dict[str, Any]:
    *_, responder, judge, file = PurePosixPath(path).parts
    prompt = file.removeprefix("baseline_errordetection_").removesuffix(".jsonl")
    return {
        "id": row["metadata"]["id"],
        "responder": responder,
        "judge": judge,
        "prompt": prompt,
        "label": row["label"],
    }
