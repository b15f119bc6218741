"""A fault campaign: random faults in real jobs, whose weights must equal those of calm jobs."""
