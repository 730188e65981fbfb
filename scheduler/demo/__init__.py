"""The demo: the real scheduler process on the embedded sandbox, and a story that is checked."""
