"""Execution of the same stages on a laptop and on a Slurm cluster."""
