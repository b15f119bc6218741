"""Support code that several test modules share."""
