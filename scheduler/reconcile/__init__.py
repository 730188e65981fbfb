"""The loop: which unit comes next, what is done about it, and when it is looked at again."""
