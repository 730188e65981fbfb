"""The loop: which unit is next, what is done about it, and when it is looked at again."""
