"""`python -m playmill` is `playmill`."""

from playmill.cli.main import main

main()
