"""Stories: what a user sees, tested with the real scheduler process."""
