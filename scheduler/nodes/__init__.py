"""Slurm's nodes and Kubernetes Nodes: which Node is behind a Slurm node, and where a pod may go."""
