"""Folders of object stores, and of anything else that has a URL."""

from verdict_cli.places.lease import Lease
from verdict_cli.places.place import Place
from verdict_cli.places.url import is_url, path_of, was_url

__all__ = ["Lease", "Place", "is_url", "path_of", "was_url"]
