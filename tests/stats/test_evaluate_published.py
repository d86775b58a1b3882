"""Published figures come out of the published data: recorded judgements against gold labels."""

import gzip
import json
import re
from collections import Counter

import pytest
from paths import SHARED

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable

DATA = SHARED / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no shared data beside the project")


def results(path, rows):
    """A results table of (source, output) pairs; without an output the row failed."""
    with ParquetTable(path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, (source, output) in enumerate(rows):
            row = {"row": index, "id": index, "status": "ok" if output else "failed"}
            row |= {f"source.{name}": value for name, value in source.items()}
            row |= {f"output.{name}": value for name, value in (output or {}).items()}
            table.write(row)
    return path / "results.parquet"


def test_unievals_correlations(tmp_path):
    with gzip.open(DATA / "unieval" / "topical_chat.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    path = results(tmp_path, [(row["scores"], row["predict_scores"]) for row in rows])
    published = {
        "naturalness": (0.443666, 0.513986, 0.373973),
        "coherence": (0.595143, 0.612942, 0.465915),
        "engagingness": (0.55651, 0.604739, 0.455941),
        "groundedness": (0.536209, 0.574954, 0.451533),
        "understandability": (0.380038, 0.467807, 0.360741),
        "overall": (0.632796, 0.662583, 0.487272),
    }
    evaluations = {
        name: Evaluation(
            prediction=f"output.{name}",
            target=f"source.{name}",
            metrics=["pearson", "spearman", "kendall"],
        )
        for name in published
    }
    for name, measures in measure(evaluations, path).items():
        assert measures.kind == "numeric"
        assert (
            tuple(round(estimate.value, 6) for estimate in measures.values.values())
            == published[name]
        )


def test_pandalms_unusable_answers_and_the_agreement_of_its_annotators(tmp_path):
    folder = DATA / "pandalm"
    gold = json.loads((folder / "testset-v1.json").read_text("utf-8"))
    judged = json.loads((folder / "gpt-3.5-turbo-testset-v1.json").read_text("utf-8"))
    rows = []
    for people, answer in zip(gold, judged, strict=True):
        votes = [people[f"annotator{index}"] for index in (1, 2, 3)]
        choice = {"1": 1, "2": 2, "tie": 0}.get(str(answer["gpt_result"]).lower())
        source = {f"a{index}": vote for index, vote in enumerate(votes, 1)}
        source["gold"] = Counter(votes).most_common(1)[0][0]
        rows.append((source, None if choice is None else {"choice": choice}))
    judge = Evaluation(
        prediction="output.choice",
        target="source.gold",
        missing="wrong",
        metrics=["accuracy", "cohen_kappa"],
    )
    measures = measure({"judge": judge}, results(tmp_path, rows))["judge"]
    assert (measures.values["accuracy"].value, measures.values["accuracy"].n) == (697 / 999, 999)
    assert round(measures.values["cohen_kappa"].value, 4) == 0.4755
    assert measures.missing == 25
    assert measures.bounds["accuracy"] == pytest.approx((697 / 999, 722 / 999))
    people = {
        f"{first}{second}": Evaluation(
            prediction=f"source.a{first}", target=f"source.a{second}", metrics=["cohen_kappa"]
        )
        for first, second in ((1, 2), (1, 3), (2, 3))
    }
    agreement = measure(people, results(tmp_path, [(source, {"choice": 0}) for source, _ in rows]))
    assert [round(measures.values["cohen_kappa"].value, 2) for measures in agreement.values()] == [
        0.85,
        0.88,
        0.86,
    ]


def test_wices_claims_are_the_best_of_their_chunks(tmp_path):
    folder = DATA / "wice"
    claims = [
        json.loads(line) for line in (folder / "claims.jsonl").read_text("utf-8").splitlines()
    ]
    answers = (folder / "outputs_claim_gpt-4-0613.jsonl").read_text("utf-8").splitlines()
    scores = {"supported": 1.0, "partially_supported": 0.5, "not_supported": 0.0}
    rows = []
    for claim, line in zip(claims, answers, strict=True):
        word = re.search(r"<answer>\s*(\w+)\s*</answer>", json.loads(line)["response"]).group(1)
        rows.append(({"claim": claim["id"], "label": claim["label"]}, {"score": scores[word]}))
    evaluation = Evaluation(
        prediction="output.score >= 1",
        target="source.label == 'supported'",
        positive=True,
        group="source.claim",
        reduce={"prediction": "any", "target": "first"},
        metrics=["accuracy", "f1"],
    )
    estimates = measure({"claims": evaluation}, results(tmp_path, rows))["claims"].values
    assert (estimates["accuracy"].value, estimates["accuracy"].n) == (0.77, 100)
    assert round(estimates["f1"].value, 3) == 0.610
