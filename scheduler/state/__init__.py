"""What the process remembers of each unit; all of it can be found out again."""
