"""Training: the gang on this machine (`python -m training`), and one worker of any gang."""
