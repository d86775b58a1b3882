"""Which rows of a run people should label, drawn with known probabilities."""
