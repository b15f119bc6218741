"""Workers of a Slurm job: their cluster description, and the outcome of each start."""
