"""A run whose judge sees labelled examples."""

from __future__ import annotations

from typing import Any

from jsonl import jsonl

STEPS = """- unit: JudgeUnit
  scale: {values: [bad, good]}
  examples: {file: labelled.jsonl, k: 2, target: source.label, cluster: source.doc}
  prompt: |
    @system
    You judge texts.
    @user
    Rate: {source.text}
"""


def test_each_prompt_shows_examples_of_other_rows_and_clusters(shell, scripted_model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    rows = [
        {"text": f"text {n}", "label": "good" if n % 2 else "bad", "doc": n // 4} for n in range(8)
    ]
    shell.write("labelled.jsonl", jsonl(rows))
    config = shell.config(STEPS, head="model: gpt-4o-mini\ndelimit: true")
    prompts: dict[str, str] = {}

    def answer(request: Any) -> str:
        user = request.messages[-1].content
        prompts[request.row.source["text"]] = user
        return '{"score": "good"}'

    scripted_model.answer = answer
    done = shell("run", config, "labelled.jsonl", "--out", "out")
    assert done.code == 0, done.err
    assert len(prompts) == 8
    for n in range(8):
        text = prompts[f"text {n}"]
        example_rows = [
            m for m in range(8) if f"\ntext {m}\n" in text.partition("End of the examples.")[0]
        ]
        assert len(example_rows) == 2 and all(m // 4 != n // 4 for m in example_rows)
        assert text.index("Example 2") < text.index("Rate:")
    result = shell("estimate", config, "labelled.jsonl")
    assert "judge shows 2 of 8 examples (balanced) in each prompt" in result.out
    assert shell("report", "out").code == 0
