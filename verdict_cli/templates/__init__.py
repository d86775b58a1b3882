"""Prompts and how they are filled (language.md, section 2)."""

from verdict_cli.templates.insert import insert, is_conversation, transcript
from verdict_cli.templates.keys import JinjaPrompt, PromptFile, PromptKey
from verdict_cli.templates.prompt import Prompt, Rendered, compile_prompt
from verdict_cli.templates.sections import framed

__all__ = [
    "JinjaPrompt",
    "Prompt",
    "PromptFile",
    "PromptKey",
    "Rendered",
    "compile_prompt",
    "framed",
    "insert",
    "is_conversation",
    "transcript",
]
