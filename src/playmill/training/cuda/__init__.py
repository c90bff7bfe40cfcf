"""The resident lane on one NVIDIA card; begin with `lane`."""
