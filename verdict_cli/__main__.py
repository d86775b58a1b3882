"""`python -m verdict_cli`."""

from verdict_cli.cli.app import main

main()
