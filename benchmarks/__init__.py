"""What qfleet's speed and learning are measured with; see README.md."""
