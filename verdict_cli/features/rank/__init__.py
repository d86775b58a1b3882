"""Rank candidates, and compare systems by scores or battles: `verdict rank`, `evaluate: {arena: …}`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {"rank": Entry("command.rank", "Rank candidates by score, tournament or groups.", "Judge live")},
    "evaluators": {"arena": Entry("arena.leaderboard.leaderboards")},
    "sections": {"Leaderboards": Entry("leaderboard_section.leaderboard_sections", before="Evaluations")},
}
