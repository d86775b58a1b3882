"""Rankings of candidates: scored one by one, or compared in contests (`verdict rank`)."""
