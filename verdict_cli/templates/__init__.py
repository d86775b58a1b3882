"""Prompts and how they are filled (language.md, section 2)."""

from verdict_cli.templates.insert import insert, is_conversation, transcript
from verdict_cli.templates.prompt import (
    JinjaPrompt,
    Prompt,
    PromptFile,
    PromptKey,
    Rendered,
    compile_jinja,
    compile_prompt,
)

__all__ = [
    "JinjaPrompt",
    "Prompt",
    "PromptFile",
    "PromptKey",
    "Rendered",
    "compile_jinja",
    "compile_prompt",
    "insert",
    "is_conversation",
    "transcript",
]
