"""State vectors that are sharded over processes. Imports no framework."""
