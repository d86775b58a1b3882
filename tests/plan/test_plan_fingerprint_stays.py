"""Which fields count in a fingerprint. A run is resumed only where its fingerprint stays equal, so that a change here is a
change that users meet: an unfinished run starts afresh."""

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
    "think": "8cb693b9d64230e6", "own": "dfaf31484d7d1002", "other": "e31a91bfe8ebfd63", "mean": "63aa2c851464318c",
    "free": "d6d7bc3ccdab7b71", "check": "ffa5546cfa5890a3", "vote[0]": "52b0d579d392d0ec",
    "vote[1]": "afc65e8fd92532a6", "vote[2]": "f6f9b631a64d2cd3", "end": "b0fdcdad4a09c961",
}  # fmt: skip
OWN = {
    "model": "c51163e1383d6a86", "prompt": "f0c2610223ca5504", "scale": "d3d0fc529c24cfa7",
    "extractor": "d14d83515bd98154", "before": "f4354f698524ad72", "output": "cb8f040ce7471ca6",
}  # fmt: skip
"""The digest by which a calibration recognises the unit `own`."""


def test_a_pipeline_keeps_its_fingerprints(plan):
    built = plan(TEXT).plan
    assert built.fingerprint == "f952f25ab9ab4170fbce453bf54c9ebf"
    assert {node.id: node.fingerprint for node in built.nodes} == NODES
    (own_node,) = [node for node in built.nodes if node.id == "own"]
    assert own_node.marks == OWN
