"""Training: one worker (`python -m training.worker`) and the gang on this machine (`python -m training`)."""
