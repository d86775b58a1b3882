"""Audits of a judge: runs with one change each, and their effect on its verdicts."""
