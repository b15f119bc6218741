"""The client of Slurm."""
