"""A real Slurm cluster on one machine, for tests: ``python -m xling.slurm.testbed up --nodes 2``."""
