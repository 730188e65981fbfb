"""Helpers that the libraries and the service share. They know neither Kubernetes nor Slurm."""
