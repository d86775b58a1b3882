"""Leaderboards of systems: their scores or battles read, strengths, and ranks that the data allow."""
