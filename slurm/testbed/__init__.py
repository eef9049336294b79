"""A real Slurm cluster on one machine, for tests: ``python -m slurm.testbed up --nodes 2``."""
