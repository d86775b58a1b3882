"""Runs in a browser. Needs the extra `view`, and is imported by `verdict view` alone."""
