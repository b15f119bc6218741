"""What training and inference share: settings, storage, runs, circuits, data, simulator, models."""
