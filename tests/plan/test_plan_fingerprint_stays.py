"""Which fields count in a fingerprint. A run is resumed only where its fingerprint stays equal, so that a change here is a
change that users meet: an unfinished run starts afresh."""

from __future__ import annotations

from typing import Any

TEXT = """verdict: 1
name: x
description: All that counts.
model: {name: m, temperature: 0, timeout: 5}
models: {strong: [{name: n, retries: 1}, o]}
scales: {safety: {type: discrete, values: [unsafe, safe], scores: {unsafe: 0, safe: 1}}}
units: {Own: {base: JudgeUnit, scale: safety, prompt: "Own {source.text}"}}
dataset: {id: key, where: "source.n > 1", schema: {text: str, claims: "list[{text: str}]"}}
pipeline:
- {unit: CoTUnit, name: think, prompt: "Think of {source.text}", delimit: true}
- layer:
  - {unit: Own, name: own, model: strong, extract: weighted_summed_score}
  - {unit: Own, name: other, propagate: {score: output.score}, on_failure: skip}
- {unit: MeanPoolUnit, name: mean, quorum: 2}
- {unit: Unit, name: free, prompt: "{input.mark}", input: {mark: float}, response: {a: safety, b: "list[str]"},
   escalate: {when: "output.a == 'unsafe'", to: strong, audit_share: 0.25}}
- each: source.claims
  as: claim
  unit: JudgeUnit
  name: check
  scale: boolean
  when: source.n > 2
  prompt: "{claim.text} {previous.free.a}"
  extract: {type: post_hoc, model: strong}
- layer: [{unit: JudgeUnit, name: vote, scale: boolean, prompt: "{source.text}",
           examples: {k: 1, target: source.l, rows: [{text: a, l: true}]}}]
  repeat: 3
  until: {confidence: 0.9}
- {unit: ModePoolUnit, name: end}
"""
NODES = {
    "think": "3bd45268683c5d3d", "own": "73638c024eb28669", "other": "d960255a57ee135b", "mean": "1b494ceb9a76476a",
    "free": "66c9b140a0fb1ed5", "check": "0f6bf507df0233e5", "vote[0]": "1df2546439669003",
    "vote[1]": "d80be0a2e8091093", "vote[2]": "a697cf2ef1e4939f", "end": "791202b7904af80b",
}  # fmt: skip
OWN = {
    "model": "873315c06a1fe371", "prompt": "f0c2610223ca5504", "scale": "0238c5531be49d1d",
    "extractor": "d3f4674bfac5afa8", "before": "c9998f21c2abf977", "output": "cb8f040ce7471ca6",
}  # fmt: skip
"""The digest by which a calibration recognises the unit `own`."""


def test_a_pipeline_keeps_its_fingerprints(plan: Any) -> None:
    built = plan(TEXT).plan
    assert built.fingerprint == "bb0cc0d0b17980f10a17d8f5bb5541d5"
    assert {node.id: node.fingerprint for node in built.nodes} == NODES
    (own,) = [node for node in built.nodes if node.id == "own"]
    assert own.marks == OWN
