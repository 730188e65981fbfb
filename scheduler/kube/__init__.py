"""Access to the API server: a session, a reflector for each kind, the few writes, and Events."""
