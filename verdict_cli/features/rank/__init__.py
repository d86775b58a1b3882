"""Rank candidates, and compare systems by scores or battles: `verdict rank`, `evaluate: {arena: …}`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "rank": PartSpec(
            "command.rank", "Rank candidates by score, tournament or groups.", "Judge live"
        )
    },
    "metrics": {
        "mean_score": PartSpec("evaluator.MEAN_SCORE", before="length_controlled_win_rate"),
        "win_rate": PartSpec("evaluator.WIN_RATE", before="length_controlled_win_rate"),
        "bradley_terry": PartSpec("evaluator.BRADLEY_TERRY", before="length_controlled_win_rate"),
    },
    "sections": {
        "Leaderboards": PartSpec("leaderboard_section.leaderboard_sections", before="Evaluations")
    },
}
