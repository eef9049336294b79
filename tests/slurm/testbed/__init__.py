"""A real Slurm cluster on one machine, for tests: ``python -m tests.slurm.testbed up --nodes 2``."""
