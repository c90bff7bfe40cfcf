"""Training runs: settings, the resident trainer, run folders, reports."""
