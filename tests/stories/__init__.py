"""What a user sees, through the real scheduler process."""
