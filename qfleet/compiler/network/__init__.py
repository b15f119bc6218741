"""Programs that contract tensor networks."""
