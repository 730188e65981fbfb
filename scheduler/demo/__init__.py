"""The demo: the real scheduler on the embedded sandbox, with a story whose steps are checked."""
