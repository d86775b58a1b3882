"""Audits of a judge: what it is asked is changed in one respect, and what that does to its verdicts is measured."""
