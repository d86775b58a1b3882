"""Prompts and how they are filled (language.md, section 2)."""

from verdict_cli.templates.delimit import Delimited, boundary, fenced, noted
from verdict_cli.templates.insert import insert, is_conversation, transcript
from verdict_cli.templates.keys import JinjaPrompt, PromptFile, PromptKey
from verdict_cli.templates.prompt import Prompt, Rendered, compile_prompt
from verdict_cli.templates.sections import framed, suffixed

__all__ = [
    "Delimited",
    "JinjaPrompt",
    "Prompt",
    "PromptFile",
    "PromptKey",
    "Rendered",
    "boundary",
    "compile_prompt",
    "fenced",
    "framed",
    "insert",
    "is_conversation",
    "noted",
    "suffixed",
    "transcript",
]
