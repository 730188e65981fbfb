"""Slurm's nodes and Kubernetes Nodes: which is behind which, and where a pod may go."""
