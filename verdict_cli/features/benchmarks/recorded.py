"""Recorded judges: the published values that a run of their replies must reproduce, set by set."""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct

from verdict_cli.errors import DataError, Problem, UsageError
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.messages import JsonObject, NamedValues

CaseRows = Iterable[JsonObject]
CaseInputs = tuple[CaseRows, CaseRows]
"""The rows of a dataset, and the recorded replies to them."""
REMAKE = (
    "`python benchmarks/rebuild_recordings.py` of the repository makes the folder of recordings"
)


class PublishedValue(Struct, frozen=True):
    """A published value: its name, the run's metric (``evaluation.metric``), the value and its decimals.

    ``note`` says why ours may differ; ``convert`` turns the run's metric into the published unit.
    """

    name: str
    metric: str
    value: float
    decimals: int
    note: str = ""
    convert: Callable[[float], float] = float


class Case(Struct, frozen=True):
    """A pipeline of `configs/reproductions`, a dataset, a recording, and the values that the run must reproduce.

    ``origin``: the values are ``published``, or were ``recomputed`` by the people who collected the recordings.
    """

    name: str
    pipeline: str
    inputs: Callable[[], CaseInputs]
    values: tuple[PublishedValue, ...]
    settings: tuple[str, ...] = ()
    origin: str = "published"

    def read(self) -> CaseInputs:
        """The inputs. DataError where a file of the recordings cannot be read, or has another form."""
        with known_form(f"a file of the recordings of {self.name}"):
            return self.inputs()


_COPY = "copy the file again, or make it with `python benchmarks/rebuild_recordings.py` of the repository"


@contextmanager
def known_form(subject: str, hint: str = _COPY, file: str = "") -> Iterator[None]:
    """Turn what goes wrong with a file of another form into a DataError."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as fault:
        message = f"{subject} has another form than expected: {fault!r:.100}"
        raise DataError(Problem("bad-recording", message, hint, file)) from None


@contextmanager
def open_recorded_file(path: Path) -> Iterator[TextIO]:
    """A file of the recordings, opened as text, `.gz` allowed. DataError naming it where it is missing or unreadable."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                yield file
        else:
            with path.open(encoding="utf-8", newline="") as file:
                yield file
    except FileNotFoundError:
        raise DataError(
            Problem("file-not-found", "this file of the recordings is missing", REMAKE, str(path))
        ) from None
    except (OSError, EOFError, zlib.error, ValueError) as fault:
        message = f"the recording cannot be read: {fault}"
        raise DataError(Problem("bad-recording", message, _COPY, str(path))) from None


def read_jsonl(path: Path) -> list[JsonObject]:
    """The objects of a JSONL file of the recordings."""
    with open_recorded_file(path) as file:
        return [json.loads(line) for line in file]


def _reply(row_id: Any, text: str, unit: str = "judge", **more: Any) -> JsonObject:
    """A recorded reply to a unit's call for a row."""
    return {"id": row_id, "unit": unit, "reply": text, **more}


FACTCC_UNCLEAR = "in the other answers the first clear word is a yes"


def factcc_cases(data: Path) -> Iterator[Case]:
    """The share of answers that a pattern reads as "no"."""

    def inputs() -> CaseInputs:
        records = read_jsonl(data / "factcc_explanations" / "explanations.jsonl.gz")
        rows = [
            {"place": str(index), "doc_id": row["doc_id"], "summary": row["summary"]}
            for index, row in enumerate(records)
        ]
        return rows, [_reply(str(index), row["explanation"]) for index, row in enumerate(records)]

    values = (
        PublishedValue("answers read as no (%)", "read_as_no.mean", 100.0, 2, FACTCC_UNCLEAR),
    )
    yield Case("factcc/explanations", "factcc", inputs, values)


def wice_cases(data: Path) -> Iterator[Case]:
    """F1 and accuracy over claims."""

    def inputs() -> CaseInputs:
        rows = [{**row, "key": _key(row)} for row in read_jsonl(data / "wice" / "claims.jsonl")]
        outputs = read_jsonl(data / "wice" / "outputs_claim_gpt-4-0613.jsonl")
        return rows, [_reply(_key(row), row["response"]) for row in outputs]

    values = (
        PublishedValue("F1 × 100", "claim.f1", 61.0, 1, convert=_as_percent),
        PublishedValue("accuracy (%)", "claim.accuracy", 77.0, 1, convert=_as_percent),
    )
    yield Case("wice/gpt-4-0613", "wice", inputs, values)


def _key(row: dict[str, object]) -> str:
    return f"{row['id']}-{row['chunk']}"


def _as_percent(share: float) -> float:
    return 100 * share


TRIVIAQA_RECOMPUTED = {
    "GPT-4": (0.9115, 0.7876),
    "Llama3-70B": (0.9266, 0.8179),
    "JudgeLM": (0.8017, 0.5917),
    "Contains": (0.8478, 0.6832),
    "EM": (0.7088, 0.4578),
    "Gemma-2B": (0.7803, 0.4220),
}


def triviaqa_cases(data: Path) -> Iterator[Case]:
    """Agreement and Cohen's kappa of six judges with people."""

    def inputs() -> CaseInputs:
        rows = [
            {**row, "key": f"{row['exam_taker']}-{row['index']}"}
            for row in read_jsonl(data / "triviaqa_judges" / "judgements_v1.jsonl.gz")
        ]
        replies = [
            _reply(row["key"], "true" if answer else "false", judge)
            for row in rows
            for judge, answer in row["judges"].items()
            if answer is not None
        ]
        return rows, replies

    values = tuple(
        PublishedValue(f"{judge}: {label}", f"{judge}.{metric}", value, 4)
        for judge, values in TRIVIAQA_RECOMPUTED.items()
        for label, metric, value in zip(
            ("agreement", "Cohen's kappa"), ("accuracy", "cohen_kappa"), values, strict=True
        )
    )
    yield Case("triviaqa/v1", "triviaqa", inputs, values, origin="recomputed")


RATES = {
    ("human", "safe"): (40.4, 38.0, 21.6),
    ("human", "unsafe"): (0.0, 99.5, 0.5),
    ("gpt4", "safe"): (64.0, 30.4, 5.6),
    ("gpt4", "unsafe"): (15.0, 85.0, 0.0),
    ("match", "safe"): (51.6, 48.4),
    ("match", "unsafe"): (2.0, 98.0),
}
RATERS = {"human": "people", "gpt4": "GPT-4", "match": "string match"}
LABELS = ("compliance", "refusal", "partial")


def xstest_cases(data: Path) -> Iterator[Case]:
    """The published rates, and the agreement of GPT-4 and of string matching with people."""

    def inputs() -> CaseInputs:
        with open_recorded_file(data / "xstest" / "completions_llama2orig.csv") as file:
            rows: list[JsonObject] = [
                {**row, "unsafe": row["type"].startswith("contrast_")}
                for row in csv.DictReader(file)
            ]
        return rows, [_reply(row["id"], row["gpt4_label"]) for row in rows]

    rates = tuple(
        PublishedValue(
            f"{RATERS[rater]}, {group} prompts: {label} (%)",
            f"{rater}_{group}_{label}.mean",
            value,
            1,
        )
        for (rater, group), values in RATES.items()
        for label, value in zip(LABELS, values, strict=False)
    )
    yield Case("xstest/rates", "xstest", inputs, rates)
    people = (
        PublishedValue(
            "two people: agreement (%)", "people.accuracy", 96.4, 1, convert=_as_percent
        ),
        PublishedValue(
            "two people: Fleiss' kappa, as Krippendorff's alpha",
            "people.krippendorff_alpha",
            0.93,
            2,
        ),
    )
    yield Case("xstest/people", "xstest", inputs, people)
    agreement = (
        PublishedValue("GPT-4: accuracy", "gpt4.accuracy", 0.7711, 4),
        PublishedValue("GPT-4: Cohen's kappa", "gpt4.cohen_kappa", 0.5795, 4),
        PublishedValue("string match, two classes: accuracy", "match.accuracy", 0.8933, 4),
        PublishedValue("string match, two classes: Cohen's kappa", "match.cohen_kappa", 0.7246, 4),
    )
    yield Case("xstest/agreement", "xstest", inputs, agreement, origin="recomputed")


PAPERBENCH_SCORES = {
    "rice": 0.185681216931217,
    "self_consistency": 0.91,
    "all_in_one": 0.713935185185185,
}


def paperbench_cases(data: Path) -> Iterator[Case]:
    """The scores of three submissions, from people's grades of the leaves of their rubrics."""

    def inputs() -> CaseInputs:
        rows = read_jsonl(data / "paperbench" / "rubrics.jsonl.gz")
        return rows, [
            _reply(row["paper"], json.dumps({"score": leaf["grade"]}), "grade", item=index)
            for row in rows
            for index, leaf in enumerate(row["rubric"])
        ]

    values = tuple(
        PublishedValue(f"{paper}: replication score", f"{paper}.mean", score, 9)
        for paper, score in PAPERBENCH_SCORES.items()
    )
    yield Case("paperbench/people", "paperbench", inputs, values)


def alpacaeval_cases(data: Path) -> Iterator[Case]:
    """The win rate of each model against the baseline."""
    folder = data / "alpacaeval_logprobs"
    with open_recorded_file(folder / "published_leaderboard.csv") as file:
        published = {row["model"]: row for row in csv.DictReader(file)}
    for model, row in published.items():

        def inputs(model: str = model) -> CaseInputs:
            rows = read_jsonl(folder / f"{model}.jsonl.gz")
            replies = [
                _reply(row["index"], row["text"], logprobs=[_tokens(row)])
                for row in rows
                if not row["identical_outputs"]
            ]
            names = ("index", "switched", "identical_outputs")
            return [{key: row[key] for key in names} for row in rows], replies

        yield Case(f"alpacaeval/{model}", "alpacaeval", inputs, _win_rates(row))


def _tokens(row: NamedValues) -> list[JsonObject]:
    return [{"token": token, "logprob": value} for token, value in row["top_logprobs"]]


def _win_rates(row: Mapping[str, str]) -> tuple[PublishedValue, ...]:
    count = int(row["n_total"])
    error = PublishedValue(
        "standard error of the win rate (%)",
        "win_rate.variance",
        float(row["standard_error"]),
        6,
        convert=lambda variance: math.sqrt(variance / count),
    )
    outcomes = tuple(
        PublishedValue(
            label, f"{metric}.mean", float(row[column]), 0, convert=lambda share: share * count
        )
        for label, metric, column in (
            ("wins", "wins", "n_wins"),
            ("wins of the baseline", "losses", "n_wins_base"),
            ("draws", "draws", "n_draws"),
        )
    )
    return (
        PublishedValue("win rate (%)", "win_rate.mean", float(row["win_rate"]), 6),
        error,
        *outcomes,
        PublishedValue(
            "discrete win rate (%)", "discrete.mean", float(row["discrete_win_rate"]), 6
        ),
    )


JUDGEBENCH_PUBLISHED = {
    "overall": 65.71,
    "knowledge": 58.44,
    "reasoning": 62.24,
    "math": 82.14,
    "coding": 78.57,
}
JUDGEBENCH_RECOMPUTED = {
    "first game alone right": ("first_game", 248),
    "second game alone right": ("second_game", 261),
    "games agree": ("agreement", 240),
    "pairs wrong": ("wrong", 39),
    "pairs tied": ("tied", 81),
}


def judgebench_cases(data: Path) -> Iterator[Case]:
    """Accuracy overall and by category, and how the two orders differ."""
    folder = data / "judgebench"

    def inputs() -> CaseInputs:
        outputs = read_jsonl(folder / "outputs_gpt-4o__arena_hard__o1-mini-2024-09-12.jsonl")
        replies = [
            _reply(output["pair_id"], game["response"], f"game[{index}]")
            for output in outputs
            for index, game in enumerate(output["games"])
        ]
        return read_jsonl(folder / "pairs_gpt-4o.jsonl"), replies

    published = tuple(
        PublishedValue(f"o1-mini, {name}: accuracy (%)", f"{name}.mean", value, 2)
        for name, value in JUDGEBENCH_PUBLISHED.items()
    )
    yield Case("judgebench/o1-mini", "judgebench", inputs, published)
    recomputed = tuple(
        PublishedValue(f"o1-mini, {label} (% of 350)", f"{metric}.mean", 100 * count / 350, 2)
        for label, (metric, count) in JUDGEBENCH_RECOMPUTED.items()
    )
    yield Case("judgebench/o1-mini/orders", "judgebench", inputs, recomputed, origin="recomputed")


SENTENCE = r"(?s)\A.*?Output \((a)\) is better|Output \((b)\) is better"
"""The verdict of strategies that reason first; the others answer with a line of its own."""


LLMBAR_SHARES = (
    ("accuracy", "accuracy", "correct_average"),
    ("agreement", "agreement", "equal"),
    ("right as given", "given", "correct_False"),
    ("right when swapped", "swapped", "correct_True"),
    ("right in both orders", "both", "correct_both"),
)
"""What is published of a run: its name, our evaluation, and the key."""


def llmbar_cases(data: Path) -> Iterator[Case]:
    """Accuracy in each order, in both and on average, and agreement of the two, for every published run."""
    folder = data / "llmbar"
    for run in read_jsonl(folder / "published_statistics.jsonl"):
        evaluator, subset, strategy = run["evaluator"], run["subset"], run["strategy"]
        pipeline, settings = _pipeline(evaluator, strategy)
        name = f"llmbar/{evaluator}/{subset}/{strategy}"
        values = tuple(
            PublishedValue(f"{label} (%)", f"{metric}.mean", _percent(run[key]), 4)
            for label, metric, key in LLMBAR_SHARES
        )

        def inputs(
            subset: str = subset, evaluator: str = evaluator, strategy: str = strategy
        ) -> CaseInputs:
            outputs = _outputs(folder, evaluator)[subset, strategy]
            return read_jsonl(folder / f"dataset_{subset}.jsonl.gz"), [
                reply for output in outputs for reply in _replies(output)
            ]

        yield Case(name, pipeline, inputs, values, settings)


def _percent(text: str) -> float:
    """`70.0` of `70 / 100 = 70.0%`."""
    return float(text.rpartition("= ")[2].rstrip("%"))


def _pipeline(evaluator: str, strategy: str) -> tuple[str, tuple[str, ...]]:
    quoted = "'" + SENTENCE + "'"
    if strategy.startswith("Rating"):
        return "llmbar_rating", ()
    if strategy.startswith("Swap"):
        again = (f"units.Second.extract.fields.best={quoted}",) if strategy == "Swap_CoT" else ()
        return "llmbar_swap", again
    if strategy == "CoT" and evaluator != "PaLM2":
        return "llmbar", (f"units.Comparison.extract.fields.best={quoted}",)
    return "llmbar", ()


@cache
def _outputs(folder: Path, evaluator: str) -> dict[tuple[str, str], list[JsonObject]]:
    grouped: dict[tuple[str, str], list[JsonObject]] = {}
    for output in read_jsonl(folder / f"outputs_{evaluator}.jsonl.gz"):
        grouped.setdefault((output["subset"], output["strategy"]), []).append(output)
    return grouped


def _replies(output: JsonObject) -> Iterator[JsonObject]:
    """The verdicts' texts; metrics and reference answers that were written before them are left out."""
    stages = [stage for stage in output["stages"] if "auxiliary" not in stage]
    for stage, again in zip(stages, ("", "_again"), strict=False):
        for unit in ("score_1", "score_2"):
            if unit in stage:
                yield _reply(output["index"], stage[unit], unit)
        for unit in ("orig", "swap"):
            if "completion" in stage[unit]:
                yield _reply(output["index"], stage[unit]["completion"], f"{unit}{again}")


def pandalm_cases(data: Path) -> Iterator[Case]:
    """The people's agreement, the gold labels' distribution, and GPT-3.5 against them."""
    folder = data / "pandalm"

    def inputs() -> CaseInputs:
        with open_recorded_file(folder / "testset-v1.json") as file:
            rows = json.load(file)
        with open_recorded_file(folder / "gpt-3.5-turbo-testset-v1.json") as file:
            outputs = json.load(file)
        replies = [_reply(str(row["idx"]), str(row["gpt_result"])) for row in outputs]
        return [{key: str(value) for key, value in row.items()} for row in rows], replies

    people = (
        PublishedValue("annotators 1 and 2: Cohen's kappa", "people_12.cohen_kappa", 0.85, 2),
        PublishedValue("annotators 1 and 3: Cohen's kappa", "people_13.cohen_kappa", 0.88, 2),
        PublishedValue("annotators 2 and 3: Cohen's kappa", "people_23.cohen_kappa", 0.86, 2),
        PublishedValue("gold ties (rows)", "gold_0.mean", 105, 0),
        PublishedValue("gold response 1 (rows)", "gold_1.mean", 422, 0),
        PublishedValue("gold response 2 (rows)", "gold_2.mean", 472, 0),
    )
    yield Case("pandalm/people", "pandalm", inputs, people)
    judge = (
        PublishedValue("GPT-3.5: accuracy", "judge.accuracy", 0.6977, 4),
        PublishedValue("GPT-3.5: Cohen's kappa", "judge.cohen_kappa", 0.4755, 4),
    )
    yield Case("pandalm/gpt-3.5", "pandalm", inputs, judge, origin="recomputed")
    table = (
        PublishedValue(
            "GPT-3.5, the paper's table: accuracy",
            "judge.accuracy",
            0.6296,
            4,
            "the table has another run of GPT-3.5 than the recorded one",
        ),
    )
    yield Case("pandalm/gpt-3.5/table", "pandalm", inputs, table)


TASK = "answerability_classification"
PROMPTS = ("prompt_1", "prompt_2", "prompt_3", "prompt_4")
JURY = ("Llama-2-70b-chat-hf", "Mixtral-8x7B-Instruct-v0.1", "Qwen1.5-72B-Chat")
NO_POSITIVE = (
    "no answer says that there is an error, so precision has no value; the paper's code writes 0"
)


def realmistake_cases(data: Path) -> Iterator[Case]:
    """Accuracy, precision, recall and F1 of every published run."""
    folder = data / "realmistake"
    for responder, judge, prompt, run in _published(folder, "simple"):

        def single(
            responder: str = responder, judge: str = judge, prompt: str = prompt
        ) -> CaseInputs:
            rows = [
                row
                for row in _simple(folder)[responder]
                if (row["judge"], row["prompt"]) == (judge, prompt)
            ]
            return _labels(rows), [_reply(row["id"], row["response"]) for row in rows]

        yield Case(
            f"realmistake/{responder}/{judge}/{prompt}",
            "realmistake",
            single,
            _published_values(run),
        )
    for responder, judge, _, run in _published(folder, "selfcons"):

        def samples(judge: str = judge) -> CaseInputs:
            rows = [
                row
                for row in read_jsonl(folder / f"selfcons__{TASK}.jsonl.gz")
                if row["judge"] == judge
            ]
            replies = [
                _reply(row["id"], text, f"judge[{index}]")
                for row in rows
                for index, text in enumerate(row["responses"])
            ]
            return _labels(rows), replies

        name = f"realmistake/{responder}/{judge}/self-consistency"
        yield Case(name, "realmistake_selfcons", samples, _published_values(run))
    for responder, _, _, run in _published(folder, "majority"):

        def votes(responder: str = responder) -> CaseInputs:
            rows = [row for row in _simple(folder)[responder] if row["judge"] in JURY]
            replies = [_reply(row["id"], row["response"], f"juror[{_seat(row)}]") for row in rows]
            return _labels([row for row in rows if _seat(row) == 0]), replies

        yield Case(
            f"realmistake/{responder}/jury", "realmistake_jury", votes, _published_values(run)
        )


def _published(folder: Path, method: str) -> Iterator[tuple[str, str, str, JsonObject]]:
    """Responder, judge, prompt and values of each run; averages over runs are left out."""
    with open_recorded_file(folder / f"published_{method}_performance.json") as file:
        published = json.load(file)
    for responder, judges in published[TASK].items():
        for judge, prompts in judges.items():
            for prompt, run in prompts.items():
                if prompt.startswith("prompt="):
                    bare = prompt.removeprefix("prompt=").removeprefix("baseline_errordetection_")
                    yield _model(responder), _model(judge), bare, run


def _model(key: str) -> str:
    return key.rpartition("=")[2].rpartition("/")[2]


RUN_VALUES = (
    ("accuracy", "label.accuracy", "accuracy"),
    ("precision", "error.precision", "precision"),
    ("recall", "error.recall", "recall"),
    ("f1", "error.f1", "f1"),
    ("errors found (share of all)", "hits.mean", "true_positive_rate"),
    ("errors missed (share of all)", "misses.mean", "false_negative_rate"),
    ("false alarms (share of all)", "alarms.mean", "false_positive_rate"),
    ("rightly passed (share of all)", "passes.mean", "true_negative_rate"),
)
"""What is published of a run: its name, our metric, and the key."""


def _published_values(run: JsonObject) -> tuple[PublishedValue, ...]:
    notes = {} if run["prediction_error_num"] else {"precision": NO_POSITIVE}
    return tuple(
        PublishedValue(name, metric, run["metrics"][key], 6, notes.get(key, ""))
        for name, metric, key in RUN_VALUES
    )


@cache
def _simple(folder: Path) -> dict[str, list[JsonObject]]:
    grouped: dict[str, list[JsonObject]] = {}
    for row in read_jsonl(folder / f"simple__{TASK}.jsonl.gz"):
        grouped.setdefault(row["responder"], []).append(row)
    return grouped


def _seat(row: JsonObject) -> int:
    return JURY.index(row["judge"]) * len(PROMPTS) + PROMPTS.index(row["prompt"])


def _labels(rows: list[JsonObject]) -> list[JsonObject]:
    return [{"id": row["id"], "label": row["label"]} for row in rows]


UNIEVAL_PUBLISHED = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.55651, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}
EXPERTS = {"coherence": 3.4125, "consistency": 4.660417, "fluency": 4.672917, "relevance": 3.777083}


def unieval_cases(data: Path) -> Iterator[Case]:
    """Correlations of UniEval's scores with people's, for each dimension."""

    def inputs() -> CaseInputs:
        return read_jsonl(data / "unieval" / "topical_chat.jsonl.gz"), []

    values = tuple(
        PublishedValue(f"{dimension}: {metric}", f"{dimension}.{metric}", value, 6)
        for dimension, values in UNIEVAL_PUBLISHED.items()
        for metric, value in zip(("pearson", "spearman", "kendall"), values, strict=True)
    )
    yield Case("unieval/topical-chat", "unieval", inputs, values)


def summeval_cases(data: Path) -> Iterator[Case]:
    """Means of the experts' scores."""

    def inputs() -> CaseInputs:
        return read_jsonl(data / "summeval" / "summaries.jsonl.gz"), []

    values = tuple(
        PublishedValue(f"{name}: mean", f"{name}.mean", value, 6) for name, value in EXPERTS.items()
    )
    yield Case("summeval/experts", "summeval", inputs, values, origin="recomputed")


ACCURACY = {
    "human_debate": (46, 55, 84),
    "human_consultancy": (31, 44, 74),
    "ai_debate": (25, 30, 78),
    "ai_consultancy": (21, 25, 80),
}
THIRD = "published over 413 transcripts, of which every third one is recorded here"


def debates_cases(data: Path) -> Iterator[Case]:
    """How often the judges' last probability is on the right answer."""

    def inputs() -> CaseInputs:
        rows = [
            {**row, "key": str(index)}
            for index, row in enumerate(read_jsonl(data / "debates_quality" / "debates.jsonl.gz"))
        ]
        return rows, [_reply(row["key"], repr(_last(row))) for row in rows]

    here = tuple(
        PublishedValue(
            f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", 100 * right / count, 4
        )
        for name, (right, count, _) in ACCURACY.items()
    )
    yield Case("debates/here", "debates", inputs, here, origin="recomputed")
    paper = tuple(
        PublishedValue(f"{name.replace('_', ' ')}: accuracy (%)", f"{name}.mean", value, 0, THIRD)
        for name, (_, _, value) in ACCURACY.items()
    )
    yield Case("debates/paper", "debates", inputs, paper)


def _last(row: dict[str, object]) -> float:
    """The judge's last probability of the first answer."""
    turns = row["turns"]
    assert isinstance(turns, list)
    return float(
        next(turn["distribution"][0] for turn in reversed(turns) if turn.get("distribution"))
    )


SETS: dict[str, Callable[[Path], Iterable[Case]]] = {
    "xstest": xstest_cases,
    "judgebench": judgebench_cases,
    "llmbar": llmbar_cases,
    "realmistake": realmistake_cases,
    "alpacaeval": alpacaeval_cases,
    "wice": wice_cases,
    "pandalm": pandalm_cases,
    "triviaqa": triviaqa_cases,
    "unieval": unieval_cases,
    "summeval": summeval_cases,
    "debates": debates_cases,
    "factcc": factcc_cases,
    "paperbench": paperbench_cases,
}
"""The registry: a new set is a function and a line here."""

FOLDERS = {
    "alpacaeval": "alpacaeval_logprobs",
    "debates": "debates_quality",
    "factcc": "factcc_explanations",
    "triviaqa": "triviaqa_judges",
}
"""The folders of sets whose recordings are not in a folder of the set's name."""


def select_cases(name: str, recordings: Path) -> tuple[list[Case], dict[str, Problem]]:
    """The cases of that name or below it (`llmbar/GPT-4`), for `all` those of every set; and the sets that are left out
    because a file is missing.

    Raises UsageError if there is none.
    """
    family = name.partition("/")[0]
    sets = list(SETS) if name == "all" else [family]
    if not set(sets) <= SETS.keys():
        raise UsageError(
            f"no judge of {family!r} was recorded", hint=nearest_spelling(family, [*SETS, "all"])
        )
    folders = {set_name: recordings / FOLDERS.get(set_name, set_name) for set_name in sets}
    available = {set_name for set_name, folder in folders.items() if folder.is_dir()}
    if not available:
        raise UsageError(
            f"{recordings} holds no recordings of {name}",
            hint=f"give the folder that has {', '.join(folder.name for folder in folders.values())}",
        )
    cases: list[Case] = []
    skipped = {}
    for set_name, folder in folders.items():
        missing = Problem("file-not-found", "this set is missing", REMAKE, str(folder))
        try:
            if set_name in available:
                with known_form(f"a file of the recordings of {set_name}"):
                    cases += [*SETS[set_name](recordings)]
                continue
        except DataError as error:
            missing = error.problem
            if missing.code != "file-not-found":
                raise
        skipped[set_name] = missing
    if name == "all":
        return cases, skipped
    selected = [case for case in cases if f"{case.name}/".startswith(f"{name}/")]
    if not selected and not skipped:
        raise UsageError(
            f"no recorded case is called {name!r}",
            hint=nearest_spelling(name, [case.name for case in cases]),
        )
    return selected, skipped
