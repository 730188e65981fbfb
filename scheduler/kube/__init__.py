"""The way to the API server: a session, a reflector per kind, the few writes, and Events."""
