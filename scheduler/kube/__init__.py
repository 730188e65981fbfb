"""The Kubernetes side: a session, a reflector per kind, the few writes we make, recorded events."""
