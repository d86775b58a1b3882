"""Checks on the data before the first paid call: labels against predictions, duplicate ids, literal braces."""
