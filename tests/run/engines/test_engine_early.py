"""Layers that stop early and units that escalate, as whole runs: resumed, in parts, counted."""

from __future__ import annotations

import shutil
import sqlite3

from verdict_cli.messages import Reply, Request

STEPS = """
- layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {source.text} right?', extract: {type: regex, fields: {score: yes|no}}}]
  repeat: 9
  until: {confidence: 0.95}
- {unit: ModePoolUnit, name: vote}
"""


async def split(request: Request) -> Reply:
    """Rows of even number are clear, the others are open for long."""
    row, place = int(request.row.source["text"].split()[1]), int(request.node[6:-1])
    return Reply("no" if row % 2 and place % 3 == 1 else "yes", cost_usd=0.5)


def test_a_run_cut_anywhere_calls_only_what_is_missing_and_ends_the_same(bench):
    bench.rule = split
    whole = bench.job(12, STEPS, out="whole")
    facts = bench.run(whole)
    calls = len(bench.requests)
    assert facts.saved == {"vote": 9 * 12 - calls}
    for cut in (1, calls // 2, calls - 1):
        bench.requests.clear()
        job = bench.job(12, STEPS, out=f"cut-{cut}")
        shutil.copytree(whole.directory.path, job.directory.path)
        with sqlite3.connect(job.directory.database) as connection:
            connection.execute("DELETE FROM calls WHERE number > ?", (cut,))
            connection.execute("DELETE FROM rows")
        connection.close()
        again = bench.run(job)
        assert (again.saved, again.calls) == (facts.saved, facts.calls)
        assert len(bench.requests) == calls - again.recalled
        assert job.directory.results.read_bytes() == whole.directory.results.read_bytes()


FAMILIES = """
- layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {source.text} right?', extract: {type: regex, fields: {score: yes|no}}}]
  models: [a, a, a, a, b, b, b, b]
  until: {confidence: CONFIDENCE}
- {unit: ModePoolUnit, name: vote}
"""


async def of_one_opinion(request: Request) -> Reply:
    """Each model always says the same: a yes, b no."""
    return Reply("yes" if request.model.name == "a" else "no")


def test_a_layer_of_two_models_alternates_them_and_promises_nothing(bench):
    """The first model was asked first: of two of one opinion each, the second never was, with a promise of 0.95."""
    bench.rule = of_one_opinion
    job = bench.job(6, FAMILIES.replace("CONFIDENCE", "0.95"))
    (early,) = job.plan.early
    models = [job.plan.nodes[item[0]].work.models[0].name for item in early.items]
    assert models == ["a", "b"] * 4
    assert [item[-1] for item in early.items] == list(early.leaves)
    assert (early.exchangeable, early.promise) == (False, 0)
    bench.run(job)
    called_models = [request.model.name for request in bench.requests]
    assert (
        called_models.count("b") >= called_models.count("a") - 6
    )  # the second family is asked as often as the first


def test_copies_of_one_model_and_full_confidence_keep_their_promise(bench):
    (early,) = bench.job(1, STEPS).plan.early
    assert (early.exchangeable, early.promise) == (True, 0.95)
    (early,) = bench.job(1, FAMILIES.replace("CONFIDENCE", "1"), out="sure").plan.early
    assert early.promise == 1
    assert early.items == tuple(sorted(early.items))
