"""Commands of the client, one per file."""
