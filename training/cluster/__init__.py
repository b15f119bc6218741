"""The workers of a job, from what its launcher sets."""
