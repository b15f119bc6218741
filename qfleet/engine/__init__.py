"""What every engine needs: memory limits."""
