"""Programs that evolve states."""
