"""The loop: it chooses the next unit, acts on it, and plans its next pass."""
