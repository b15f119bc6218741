"""What a fleet takes, measured and foretold; imports common, and starts training as processes."""
