"""What a person says to a cluster, a verb a file."""
