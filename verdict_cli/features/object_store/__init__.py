"""Folders of object stores, and of anything else that has a URL."""
