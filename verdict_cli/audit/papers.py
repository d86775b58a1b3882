"""Where each cause is described."""

from __future__ import annotations

PAPERS = {
    "repeated": "Can You Trust LLM Judgments? Reliability of LLM-as-a-Judge (Schroeder and Wood-Doughty, 2024)",
    "position": "Large Language Models are not Fair Evaluators (Wang et al., 2023)",
    "length": "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (Zheng et al., 2023)",
    "style": "Style Outweighs Substance: Failure Modes of LLM Judges in Alignment Benchmarking (Feuer et al., 2024)",
    "labels": "Large Language Models Are Not Robust Multiple Choice Selectors (Zheng et al., 2024)",
    "scale": "Large Language Models are Inconsistent and Biased Evaluators (Stureborg et al., 2024)",
    "paraphrase": "State of What Art? A Call for Multi-Prompt LLM Evaluation (Mizrahi et al., 2024)",
    "self-preference": "LLM Evaluators Recognize and Favor Their Own Generations (Panickssery et al., 2024)",
    "extraction": '"My Answer is C": First-Token Probabilities Do Not Match Text Answers in Instruction-Tuned '
    "Language Models (Wang et al., 2024)",
    "attack": "Optimization-based Prompt Injection Attack to LLM-as-a-Judge (Shi et al., 2024)",
}
"""Cause -> title (authors, year)."""
