"""Importers: from a benchmark's own file to rows for a pipeline, and recorded replies where a file has them.

Pairs have `pair_id, source, question, response_A, response_B, label` (`A>B`, `B>A` or `tie`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.features.benchmarks.recorded import known_form, select_cases
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.messages import NamedValues
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.read import stream_rows

ImportedRows = Iterator[NamedValues]


class ImportedBenchmark(Struct, frozen=True):
    """The rows of a benchmark; `replies` are recorded replies for `--replay`, None if there are none."""

    rows: Callable[[], ImportedRows]
    replies: Callable[[], ImportedRows] | None = None


Importer = Callable[[Path], ImportedBenchmark]
"""Reads a benchmark's own file. Raises DataError for another file."""


def file_records(path: Path) -> ImportedRows:
    """The rows of a file, or of all files of a directory."""
    return (row.source for row in stream_rows(Dataset(find_files(str(path)))))


def file_columns(path: Path) -> frozenset[str]:
    """The columns of the first row."""
    return frozenset(next(file_records(path), {}))


def not_a_file_of(benchmark: str, path: Path, expected: str) -> DataError:
    """The error for a file that is not the benchmark's."""
    columns = ", ".join(sorted(file_columns(path))) or "missing, as are all rows"
    return DataError(
        Problem(
            "bad-header",
            f"this is not a file of {benchmark}: its columns are {columns}",
            expected,
            file=str(path),
        )
    )


RowMaker = Callable[[Path, NamedValues, int], NamedValues]


def row_importer(
    benchmark: str, needed: Collection[str], expected: str
) -> Callable[[RowMaker], Importer]:
    """Make an importer from a function of one record and its number. ``expected`` says what the file has.

    The importer raises DataError if the file lacks a column.
    """

    def importer(row: RowMaker) -> Importer:
        @wraps(row)
        def imported(path: Path) -> ImportedBenchmark:
            if not set(needed) <= file_columns(path):
                raise not_a_file_of(benchmark, path, expected)
            return ImportedBenchmark(
                lambda: (row(path, record, i) for i, record in enumerate(file_records(path)))
            )

        return imported

    return importer


def label_meaning(value: Any, meanings: Mapping[Any, str], subject: str, path: Path) -> str:
    """The meaning of a label. Raises DataError for an unknown one."""
    try:
        return meanings[value]
    except (KeyError, TypeError):
        expected_labels = ", ".join(dict.fromkeys(map(str, meanings)))
        raise DataError(
            Problem(
                "bad-label",
                f"{subject} is {value!r}, expected one of {expected_labels}",
                "is the file whole?",
                file=str(path),
            )
        ) from None


_SUPPORTED = {1: "supported", 0: "not supported", "1": "supported", "0": "not supported"}
_WHOLE = {
    "supported": "supported",
    "partially_supported": "not supported",
    "not_supported": "not supported",
}


@row_importer(
    "ExpertQA",
    {"id", "question", "claim", "references", "label"},
    "its claims have claim, id, label, question, references",
)
def expertqa(path: Path, record: NamedValues, _: int) -> NamedValues:
    """ExpertQA's claims (Malaviya et al., 2024), with the columns that they have."""
    return record


@row_importer(
    "LLM-AggreFact", {"dataset", "doc", "claim", "label"}, "it has dataset, doc, claim, label"
)
def aggrefact(path: Path, record: NamedValues, index: int) -> NamedValues:
    """LLM-AggreFact (Tang et al., 2024): `id, dataset, group, document, claim, label`, each claim its own group."""
    return {
        "id": str(index),
        "dataset": record["dataset"],
        "group": str(index),
        "document": record["doc"],
        "claim": record["claim"],
        "label": label_meaning(record["label"], _SUPPORTED, "label", path),
    }


def wice(path: Path) -> ImportedBenchmark:
    """WiCE's claims by chunks of evidence (Kamoi et al., 2023); the chunks of a claim are its group.

    Only `supported` counts: a claim that is supported in part is not. Reads the authors' oracle chunks, which name the
    claim in `meta`, and rows that have `id` and `chunk` of their own.
    """
    columns = file_columns(path)
    if not {"label", "claim", "evidence"} <= columns or not columns & {"meta", "id"}:
        raise not_a_file_of("WiCE", path, "its chunks have label, claim, evidence, and meta or id")

    def rows() -> ImportedRows:
        chunks: Counter[str] = Counter()
        for record in file_records(path):
            claim = str(record["id"] if "id" in record else record["meta"]["id"])
            yield {
                "id": f"{claim}-{record.get('chunk', chunks[claim])}",
                "dataset": "WiCE",
                "group": claim,
                "document": record["evidence"],
                "claim": record["claim"],
                "label": label_meaning(record["label"], _WHOLE, "label", path),
            }
            chunks[claim] += 1

    return ImportedBenchmark(rows)


_FIRST_OR_SECOND = {1: "A>B", 2: "B>A", "1": "A>B", "2": "B>A"}
_OR_TIE = {**_FIRST_OR_SECOND, 0: "tie", "0": "tie", 1.5: "tie", "1.5": "tie"}


@row_importer(
    "JudgeBench",
    {"pair_id", "source", "question", "response_A", "response_B", "label"},
    "its pairs have label, pair_id, question, response_A, response_B, source",
)
def judgebench(path: Path, record: NamedValues, _: int) -> NamedValues:
    """JudgeBench (Tan et al., 2024), whose own columns these are."""
    return record


@row_importer(
    "LLMBar",
    {"input", "output_1", "output_2", "label"},
    "a subset has input, output_1, output_2, label",
)
def llmbar(path: Path, record: NamedValues, index: int) -> NamedValues:
    """LLMBar (Zeng et al., 2024): a subset; its name is the source."""
    name = path.name.partition(".")[0]
    subset = path.resolve().parent.name if name == "dataset" else name.removeprefix("dataset_")
    label = label_meaning(record["label"], _FIRST_OR_SECOND, "label", path)
    identity = f"{subset}-{record.get('index', index)}"
    return _pair(identity, subset, record, "output_1", "output_2", label)


@row_importer(
    "PandaLM's test set",
    {"idx", "instruction", "response1", "response2", "annotator1", "annotator2", "annotator3"},
    "it has idx, instruction, input, response1, response2, annotator1..3",
)
def pandalm(path: Path, record: NamedValues, _: int) -> NamedValues:
    """PandaLM's test set (Wang et al., 2024); the label is what most of three annotators say, a tie where none do."""
    votes = Counter(
        label_meaning(record[f"annotator{message}"], _OR_TIE, f"annotator{message}", path)
        for message in (1, 2, 3)
    )
    label, count = votes.most_common(1)[0]
    source = str(record.get("motivation_app", "pandalm"))
    return _pair(
        str(record["idx"]), source, record, "response1", "response2", label if count > 1 else "tie"
    )


@row_importer(
    "AlpacaEval's human labels",
    {"instruction", "output_1", "output_2", "preference"},
    "they have instruction, output_1, output_2, preference",
)
def alpacaeval(path: Path, record: NamedValues, index: int) -> NamedValues:
    """Human labels of AlpacaFarm's pairs (Dubois et al., 2023), a row for each annotation."""
    label = label_meaning(record["preference"], _OR_TIE, "preference", path)
    source = str(record.get("dataset", "alpacaeval"))
    return _pair(f"alpacaeval-{index}", source, record, "output_1", "output_2", label)


@row_importer(
    "RewardBench",
    {"prompt", "chosen", "rejected", "subset", "id"},
    "it has prompt, chosen, rejected, subset, id",
)
def rewardbench(path: Path, record: NamedValues, index: int) -> NamedValues:
    """RewardBench (Lambert et al., 2024); every second row shows the chosen completion second."""
    turned = index % 2
    names = ("rejected", "chosen") if turned else ("chosen", "rejected")
    identity, source = f"{record['subset']}-{record['id']}", str(record["subset"])
    return _pair(
        identity,
        source,
        {**record, "instruction": record["prompt"]},
        *names,
        "B>A" if turned else "A>B",
    )


_WINNERS = {"model_a": "A>B", "model_b": "B>A", "tie": "tie", "tie (inconsistent)": "tie"}


@row_importer(
    "MT-Bench's human judgements",
    {
        "question_id",
        "model_a",
        "model_b",
        "winner",
        "judge",
        "conversation_a",
        "conversation_b",
        "turn",
    },
    "they have conversation_a, conversation_b, judge, model_a, model_b, question_id, turn, winner",
)
def mtbench(path: Path, record: NamedValues, index: int) -> NamedValues:
    """MT-Bench's human judgements (Zheng et al., 2023), a row for each vote: of turn 2, the whole conversations."""
    first, turn = record["conversation_a"], int(record["turn"])
    questions = [message["content"] for message in first[: 2 * turn] if message["role"] == "user"]
    return {
        "pair_id": f"{record['question_id']}-{turn}-{index}",
        "source": f"turn {turn}",
        "question": "\n\n".join(questions),
        "response_A": _replies(first, turn),
        "response_B": _replies(record["conversation_b"], turn),
        "label": label_meaning(record["winner"], _WINNERS, "winner", path),
    }


def _pair(
    identity: str, source: str, record: NamedValues, first: str, second: str, label: str
) -> NamedValues:
    input_text = record.get("input") if "instruction" in record else None
    question = record["instruction"] if "instruction" in record else record["input"]
    return {
        "pair_id": identity,
        "source": source,
        "question": f"{question}\n\n{input_text}" if input_text else question,
        "response_A": record[first],
        "response_B": record[second],
        "label": label,
    }


def _replies(conversation: list[Mapping[str, str]], turn: int) -> str:
    """The assistant's reply of turn 1, or, of turn 2, everything from its first reply on."""
    if turn == 1:
        return conversation[1]["content"]
    return "\n\n".join(
        f"{message['role']}: {message['content']}" for message in conversation[1 : 2 * turn]
    )


_PROMPTS = ("id", "prompt", "type", "label", "focus", "note")
_COMPLETIONS = ("id", "type", "prompt", "completion", "final_label")


def xstest(path: Path) -> ImportedBenchmark:
    """Of prompts `id, prompt, type, label, focus, note`; `label` is safe or unsafe. Of completions
    `id, type, prompt, completion, final_label`, and GPT-4's raw labels as replies of a unit named `judge`.
    """
    columns = file_columns(path)
    if {"id", "prompt", "type", "label"} <= columns:
        return ImportedBenchmark(lambda: (_prompt(record) for record in file_records(path)))
    if {"id", "prompt", "completion", "final_label", "gpt4_label"} <= columns:
        return ImportedBenchmark(
            lambda: (
                {name: record[name] for name in _COMPLETIONS if name in record}
                for record in file_records(path)
            ),
            lambda: (
                {"id": record["id"], "unit": "judge", "reply": record["gpt4_label"]}
                for record in file_records(path)
            ),
        )
    expected = "prompts have id, prompt, type, label; completions have id, prompt, completion, final_label, gpt4_label"
    raise not_a_file_of("XSTest", path, expected)


def _prompt(record: NamedValues) -> NamedValues:
    identity = record["id"]
    return {
        "id": int(identity) if str(identity).isdigit() else identity,
        **{name: record.get(name, "") for name in _PROMPTS[1:]},
    }


_ERROR = {"error": "error", "no_error": "no_error"}
_HALLUCINATION = {"yes": "error", "no": "no_error"}
_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


@row_importer(
    "ReaLMistake",
    {"input", "llm_response", "label"},
    "its data have input, llm_response, label, and metadata with an id",
)
def realmistake(path: Path, record: NamedValues, index: int) -> NamedValues:
    """ReaLMistake (Kamoi et al., 2024): `id, input, response, label` (error or no_error)."""
    about = record.get("metadata")
    identity = about.get("id", index) if isinstance(about, Mapping) else record.get("id", index)
    return {
        "id": str(identity),
        "input": record["input"],
        "response": record["llm_response"],
        "label": label_meaning(record["label"], _ERROR, "label", path),
    }


def halueval(path: Path) -> ImportedBenchmark:
    """HaluEval's general part (Li et al., 2023): `id, input, response, label` (error or no_error).

    A few of its rows share an ID: the later ones have their index behind it.
    """
    columns = file_columns(path)
    label = next(
        (name for name in ("hallucination", "hallucination_label") if name in columns), None
    )
    if label is None or not {"ID", "user_query", "chatgpt_response"} <= columns:
        raise not_a_file_of(
            "HaluEval's general part",
            path,
            "it has ID, user_query, chatgpt_response, hallucination",
        )

    def rows() -> ImportedRows:
        record_ids = set()
        for index, record in enumerate(file_records(path)):
            record_id = str(record["ID"])
            identity = f"{record_id}-{index}" if record_id in record_ids else record_id
            record_ids.add(record_id)
            yield {
                "id": identity,
                "input": record["user_query"],
                "response": record["chatgpt_response"],
                "label": label_meaning(record[label], _HALLUCINATION, label, path),
            }

    return ImportedBenchmark(rows)


def import_summeval(path: Path) -> ImportedBenchmark:
    """SummEval (Fabbri et al., 2021): `id, system, source, summary` and the means of the experts' four scores.

    Reads summaries with the articles in `documents.jsonl.gz` beside them, and the authors' annotations once their
    script has paired them with the articles (`text`).
    """
    columns = file_columns(path)
    if {"doc_id", "system", "summary", *_DIMENSIONS} <= columns:
        return ImportedBenchmark(lambda: _converted(path))
    if {"id", "model_id", "decoded", "expert_annotations", "text"} <= columns:
        return ImportedBenchmark(lambda: map(_annotated, file_records(path)))
    raise not_a_file_of(
        "SummEval",
        path,
        "the authors' annotations need their articles: run pair_data.py of github.com/Yale-LILY/SummEval first",
    )


def _converted(path: Path) -> ImportedRows:
    documents = next((expert for expert in path.parent.glob("documents.jsonl*")), None)
    if documents is None:
        raise DataError(
            Problem(
                "file-not-found",
                "the articles are missing",
                "put documents.jsonl.gz beside it",
                file=str(path),
            )
        )
    articles = {record["doc_id"]: record["source"] for record in file_records(documents)}
    for record in file_records(path):
        yield {
            "id": f"{record['doc_id']}-{record['system']}",
            "system": record["system"],
            "source": articles[record["doc_id"]],
            "summary": record["summary"],
            **{name: record[name] for name in _DIMENSIONS},
        }


def _annotated(record: NamedValues) -> NamedValues:
    experts = record["expert_annotations"]
    return {
        "id": f"{record['id']}-{record['model_id']}",
        "system": record["model_id"],
        "source": record["text"],
        "summary": record["decoded"],
        **{name: fmean(expert[name] for expert in experts) for name in _DIMENSIONS},
    }


IMPORTERS: dict[str, Importer] = {
    "xstest": xstest,
    "judgebench": judgebench,
    "llmbar": llmbar,
    "pandalm": pandalm,
    "mtbench": mtbench,
    "rewardbench": rewardbench,
    "alpacaeval": alpacaeval,
    "expertqa": expertqa,
    "aggrefact": aggrefact,
    "wice": wice,
    "realmistake": realmistake,
    "halueval": halueval,
    "summeval": import_summeval,
}
"""The registry: a new benchmark is a function and a line here."""


def _known_rows(path: Path, read: Callable[[], ImportedRows]) -> ImportedRows:
    with known_form("a row", "is the file whole?", str(path)):
        yield from read()


def import_benchmark(name: str, path: Path) -> ImportedBenchmark:
    """The rows of a benchmark's own file, or the rows and recorded replies of a case such as `wice/gpt-4-0613`, for which
    PATH is the folder of recordings. Raises UsageError for any other name.
    """
    importer = IMPORTERS.get(name)
    if importer is not None and not (path / name).is_dir():
        imported = importer(path)
        known_rows = partial(_known_rows, path)
        if imported.replies is not None:
            imported = replace(imported, replies=partial(known_rows, imported.replies))
        return replace(imported, rows=partial(known_rows, imported.rows))
    cases, skipped = select_cases(name, path)
    if skipped:
        raise DataError(next(iter(skipped.values())))
    if len(cases) > 1:
        raise UsageError(
            f"{name} has {len(cases)} recorded cases",
            hint=nearest_spelling(name, [case.name for case in cases]),
        )
    rows, replies = cases[0].read()
    return ImportedBenchmark(lambda: iter(rows), lambda: iter(replies))
