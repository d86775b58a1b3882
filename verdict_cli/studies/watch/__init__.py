"""Frozen anchor rows judged again and again, and whether the judge has drifted (`verdict watch`)."""
