"""What the process remembers of each unit. All of it can be found out again."""
