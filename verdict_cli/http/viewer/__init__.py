"""Runs in a browser. Imported by `verdict view` alone."""
