"""Rank candidates, and compare systems by scores or battles: `verdict rank`, `evaluate: {arena: …}`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {"rank": PartSpec("command.rank", "Rank candidates by score, tournament or groups.", "Judge live")},
    "evaluators": {"arena": PartSpec("arena.leaderboard.leaderboards")},
    "sections": {"Leaderboards": PartSpec("leaderboard_section.leaderboard_sections", before="Evaluations")},
}
