"""A module for each format in which a document is drawn."""
