"""Picking among candidates: scored one by one, or compared in contests (`verdict rank`)."""
