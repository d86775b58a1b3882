"""A run's report: built once as a value, then rendered for a terminal, Markdown, JSON, JUnit and HTML."""
