"""The command line, the live screen, the terminal game."""
