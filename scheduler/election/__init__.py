"""The election of the one process that may write."""
