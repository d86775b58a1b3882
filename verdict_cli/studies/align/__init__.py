"""Improve a unit's prompt against human labels, without testing on what it was fitted to."""
